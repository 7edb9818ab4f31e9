// What a device does at each instant, as covers of its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/cover.h"
#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// A part of a device's time. Exposed: outside compute. Those of the sum add up, with compute and
/// idle, to the window: each lies outside the ones before it.
enum class Part : std::uint8_t {
  kCompute,
  kComm,
  kH2d,
  kD2h,
  kD2d,
  kMemset,
  kExposedComm,
  kExposedH2d,
  kExposedD2h,
  kExposedCopies,  ///< h2d and d2h
  kExposed,        ///< comm, h2d and d2h
  kSumComm,
  kSumCopies,
  kSumMemory,  ///< d2d and memset
  kSumOther,
  kBusy,  ///< any op
};
inline constexpr std::size_t kParts = 16;

/// What idle time waits for.
enum class Cause : std::uint8_t {
  kData,        ///< the process loads data
  kSync,        ///< the thread waits for the device
  kCalls,       ///< the thread is in another call of the runtime
  kHost,        ///< the thread is elsewhere
  kLaunching,   ///< the op's own call
  kNotStarted,  ///< behind the call: latency, an event, a peer
  kUnknown,     ///< the op's call is not in the trace
  kTail,        ///< behind the last op
};
inline constexpr std::size_t kCauses = 8;

/// "data_ns", ...: their names in JSON.
[[nodiscard]] const char* key_of(Cause cause) noexcept;
/// "data loading", ...: their names for people.
[[nodiscard]] const char* name_of(Cause cause) noexcept;

/// A device's time.
struct Busy {
  std::array<Cover, kParts> of;
  [[nodiscard]] const Cover& operator[](Part part) const noexcept {
    return of[static_cast<std::size_t>(part)];
  }
};
/// Ops are by begin.
[[nodiscard]] Busy busy(const std::vector<Op>& ops);

/// What the threads of the host do.
class Host {
 public:
  Host(const Trace& trace, const Rules& rules);

  /// A call that is no sync.
  struct Piece {
    Span at;
    std::uint32_t name = 0;
  };
  struct Of {
    Cover sync;
    std::vector<Piece> calls;  // disjoint, ascending; of nested ones, the outer
  };
  [[nodiscard]] const Of& thread(std::uint32_t number) const { return threads_[number]; }
  /// Returns when any thread of that process loads data.
  [[nodiscard]] const Cover& data(std::uint64_t process) const;
  /// Returns when the first call or range begins, and the last one ends.
  [[nodiscard]] const Span& all() const noexcept { return all_; }

 private:
  std::vector<Of> threads_;
  std::vector<std::pair<std::uint64_t, Cover>> data_;
  Span all_;
};

/// What the idle time of a device waits for.
struct Idle {
  std::array<Cover, kCauses> of;
  std::vector<Host::Piece> calls;  ///< those of Cause::kCalls; ascending
};
/// From `window`'s begin to its end, which lie around the ops.
[[nodiscard]] Idle idle(const Trace& trace, const Host& host, const Device& device,
                        const Cover& busy, const Span& window);

/// The figures of a window.
struct Figures {
  Time length = 0;
  std::array<Time, kParts> of{};
  std::array<Time, kCauses> idle{};

  [[nodiscard]] Time operator[](Part part) const noexcept {
    return of[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] Time operator[](Cause cause) const noexcept {
    return idle[static_cast<std::size_t>(cause)];
  }
  /// The longest of compute, comm, h2d and d2h: no step can be shorter.
  [[nodiscard]] Kind longest() const noexcept;
  [[nodiscard]] Time most() const noexcept;
  /// OE: the longest over the length. 0 without length.
  [[nodiscard]] double oe() const noexcept;
};
[[nodiscard]] Figures figures(const Busy& busy, const Idle& idle, const Span& window);
/// The sum of those of several windows.
[[nodiscard]] Figures figures(const Busy& busy, const Idle& idle, const Cover& windows);

}  // namespace overlap::trace
