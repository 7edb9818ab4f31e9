// What a rank asks of a transport: one operation, and what all ranks of it must agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "leat/comm/error.h"
#include "leat/csp/clock.h"
#include "leat/gpu/dtype.h"

namespace leat::comm {

using gpu::DType;

/// How elements are combined.
enum class Reduction : std::uint8_t { kSum, kMax };

/// The kind of an operation.
enum class OperationKind : std::uint8_t {
  kSend,
  kRecv,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
};
/// "all_reduce" and so on. A string literal.
[[nodiscard]] const char* to_string(OperationKind kind) noexcept;

/// What every rank of an operation must have in common. A trivial value.
struct Signature {
  OperationKind kind = OperationKind::kBarrier;
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kUint8;
  /// all_reduce: rank r's input counts float(double(samples_r) / sum of samples) times.
  bool is_weighted : 1 = false;
  /// The data is in the memory of Transport::device(). A transport that has no device checks that
  /// all ranks agree, and moves nothing.
  bool on_device : 1 = false;
  std::int32_t root = -1;    ///< of a broadcast
  std::uint64_t count = 0;   ///< elements, of the whole vector (reduce_scatter, all_gather too)
  std::uint64_t number = 0;  ///< of a collective, from 0 on each communicator; of a send: its key
  /// An exchange's tensor and piece; ~0: none.
  std::uint64_t tag = ~std::uint64_t{0};

  friend bool operator==(const Signature&, const Signature&) = default;
};
/// "all_reduce of 25 float32 (number 7)", for messages.
[[nodiscard]] std::string to_string(const Signature& signature);

/// One rank's part of an operation. The caller owns it, and keeps it and its memory until
/// finished() is called. Meanwhile only the transport changes it.
struct Operation {
  Signature signature;
  int peer = -1;                ///< of a send or recv
  const char* label = nullptr;  ///< the tensor's name, for errors; outlives the operation
  /// all_reduce, reduce_scatter: `count` elements. all_gather: this rank's chunk. broadcast:
  /// unused. send: what is sent. Null in an all_reduce: this rank adds nothing.
  const void* in = nullptr;
  /// all_reduce, all_gather, broadcast: `count` elements. reduce_scatter: this rank's chunk. recv:
  /// where it is received. May be `in`.
  void* out = nullptr;
  std::uint64_t samples = 0;  ///< of a weighted all_reduce
  /// Total samples over all ranks. Filled in by the agreement step of a device all_reduce.
  std::uint64_t total_samples = 0;

  /// Called once, when the operation has ended: the result is in `out` and the memory is the
  /// caller's again, or (failure not null) communication has failed. Called on any thread or fiber,
  /// with no lock held, perhaps within begin(). May destroy the operation.
  void (*finished)(Operation&, const Failure* failure) noexcept = nullptr;
  /// Called, if not null, on a rank whose help is asked for (Transport::help). Returns whether that
  /// rank will hear it.
  bool (*help_wanted)(Operation&) noexcept = nullptr;
  /// Whether this rank waits for the end now; null: it never does. Called while the operation is
  /// pending, on any thread, under World's lock.
  bool (*is_awaited)(const Operation&) noexcept = nullptr;
  void* owner = nullptr;  ///< for the owner of the operation
  /// Has no deadline: its owner checks whether somebody is late.
  bool is_patient = false;
  /// A transport's own, part of an operation that is recorded: not in the flight recorder.
  bool is_hidden = false;

  // World's, under its lock.
  int rank = -1;  ///< in the world
  std::uint64_t context = 0;
  TimePoint began = {};
  Operation* next = nullptr;
  Operation* previous = nullptr;
  std::uint64_t record = 0;  ///< the flight recorder's entry

  // The transport's own.
  void* state = nullptr;
  Operation* link = nullptr;
};

/// The chunk of rank `rank` of `size`: elements [first, second) of `count` (floor(count·r/n) to
/// floor(count·(r+1)/n)).
[[nodiscard]] inline std::pair<std::uint64_t, std::uint64_t> chunk_of(std::uint64_t count, int rank,
                                                                      int size) noexcept {
  const auto ranks = static_cast<std::uint64_t>(size);
  const auto at = [&](int r) {  // floor(count * r / ranks), without a product that overflows
    const auto i = static_cast<std::uint64_t>(r);
    return count / ranks * i + count % ranks * i / ranks;
  };
  return {at(rank), at(rank + 1)};
}

/// A short message of one rank's exchange to another's: who is ready, what comes next. Its meaning
/// is the exchange's. A trivial value.
struct Notice {
  std::int32_t from = -1;  ///< set by the transport
  std::uint32_t kind = 0;
  std::uint32_t tensor = 0;
  std::uint32_t piece = 0;
  std::uint64_t step = 0;
  std::uint64_t value = 0;
};

}  // namespace leat::comm
