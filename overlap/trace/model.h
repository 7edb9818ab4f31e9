// What a trace tells, whichever program wrote it: ops of devices, the calls that launched them,
// ranges of the host.
//
// Times are integer nanoseconds since any origin; intervals are half-open. Nothing here is
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace overlap::trace {

/// Nanoseconds.
using Time = std::int64_t;

/// Adds, and stays within 64 bits: a damaged trace may have many lengths of centuries.
inline void add_within(Time& sum, Time length) noexcept {
  if (__builtin_add_overflow(sum, length, &sum)) sum = length < 0 ? INT64_MIN : INT64_MAX;
}

/// [begin, end).
struct Span {
  Time begin = 0;
  Time end = 0;
};

/// What an op does.
enum class Kind : std::uint8_t {
  kCompute,  ///< kernels, and CUDA graphs recorded as a whole
  kComm,     ///< kernels of collectives, copies between devices
  kH2d,
  kD2h,
  kD2d,
  kMemset,
  kOther,  ///< copies that name no direction
};
inline constexpr std::size_t kKinds = 7;
/// "compute", "comm", "h2d", "d2h", "d2d", "memset", "other".
[[nodiscard]] const char* to_string(Kind kind) noexcept;

/// The host's side of a copy.
enum class Memory : std::uint8_t { kUnknown, kPageable, kPinned };
/// "?", "pageable", "pinned".
[[nodiscard]] const char* to_string(Memory memory) noexcept;

/// Texts, each kept once. Of longer ones, the first kMost bytes.
class Names {
 public:
  static constexpr std::size_t kMost = 4096;

  /// Returns the text's number: equal texts have equal ones.
  [[nodiscard]] std::uint32_t add(std::string_view text);
  [[nodiscard]] const std::string& operator[](std::uint32_t name) const { return texts_[name]; }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // keys lie in texts_
};

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// A kernel, copy or memset on a device.
struct Op {
  Time begin = 0;
  Time end = 0;
  std::uint64_t bytes = 0;     ///< copied; 0: not known
  std::uint32_t name = 0;      ///< in Trace::names
  std::uint32_t stream = 0;    ///< in Device::streams
  std::uint32_t call = kNone;  ///< in Trace::calls: what launched it
  Kind kind = Kind::kOther;
  Memory memory = Memory::kUnknown;
  bool is_graph = false;  ///< a whole CUDA graph, whose content the trace does not have
};

/// A call of the runtime or the driver.
struct Call {
  Time begin = 0;
  Time end = 0;
  std::uint32_t thread = 0;  ///< in Trace::threads
  std::uint32_t name = 0;    ///< without endings such as _v3020
};

/// A range that the program named: an annotation, an NVTX range.
struct Range {
  Time begin = 0;
  Time end = 0;
  std::uint32_t thread = 0;
  std::uint32_t name = 0;
};

/// A thread of a process.
struct Thread {
  std::uint64_t process = 0;
  std::uint64_t number = 0;
};

/// A device, as one trace sees it.
struct Device {
  std::int64_t number = 0;
  std::string name;                  ///< "NVIDIA A100"; "": not told
  std::vector<std::string> streams;  ///< as the trace names them
  std::vector<Op> ops;               ///< by begin

  /// From the first op's begin to the last end. There are some.
  [[nodiscard]] Span all() const noexcept;
};

/// What a batch of a Leat loop went through (cat "leat").
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t number = 0;
  std::optional<Span> copy;
  std::optional<Span> use;
};

/// A Leat loop of one rank.
struct Loop {
  std::string name;            ///< "rank 0: host:0"
  std::vector<Batch> batches;  ///< by the end of their use
  std::vector<Span> waits;     ///< of the consumer, for a batch
};

/// What a reader left out.
struct Oddities {
  std::uint64_t dropped = 0;  ///< events without time or length, or with a negative one
};

/// One file.
struct Trace {
  std::string file;
  std::string format;                ///< "PyTorch profiler", "Nsight Systems", "Leat"
  std::optional<std::int64_t> rank;  ///< distributedInfo
  std::string partial;               ///< why the rest is missing; "": it is not
  Names names;
  std::vector<Device> devices;  ///< by number
  std::vector<Thread> threads;
  std::vector<Call> calls;    ///< by begin
  std::vector<Range> ranges;  ///< by begin
  std::vector<Loop> loops;
  Oddities oddities;
};

/// What the names of a trace mean. Patterns are ECMAScript's, look at the first 1,000 bytes of a
/// name (std::regex recurses for each), and match anywhere in it.
struct Rules {
  std::optional<std::regex> comm;  ///< more kernels that communicate: --comm
  std::optional<std::regex> data;  ///< more ranges that load data: --data
  std::optional<std::regex> step;  ///< the ranges that are steps: --step
};

/// Returns whether the pattern is found in the first 1,000 bytes of the text.
[[nodiscard]] bool finds(const std::regex& pattern, std::string_view text);
/// Returns whether a kernel of that name communicates: nccl..., rccl..., mscclkernel..., or --comm.
[[nodiscard]] bool is_comm(std::string_view kernel, const Rules& rules);
/// Returns whether a range of that name loads data: DataLoader's __next__, or --data.
[[nodiscard]] bool is_data(std::string_view range, const Rules& rules);
/// Returns whether a call of that name returns when the device, a stream, an event or its copy is
/// done.
[[nodiscard]] bool is_sync(std::string_view call) noexcept;
/// Returns the name without endings such as _v3020, _ptsz.
[[nodiscard]] std::string_view without_endings(std::string_view call) noexcept;
/// Returns what a copy of that name does ("Memcpy HtoD (Pageable -> Device)"), and sets `memory`.
[[nodiscard]] Kind kind_of_copy(std::string_view name, Memory& memory) noexcept;

}  // namespace overlap::trace
