// Communicators: a rank's handle on the other ranks, and the operations that they do together.
//
// Example
//   leat::comm::Communicator ranks = std::move(leat::comm::open("mpi").front());
//   std::vector<float> gradient = ...;
//   ranks.all_reduce(gradient).await();      // every rank has the sum, the same bits
//
//   // Four ranks in one process, a fiber each:
//   std::vector<leat::comm::Communicator> all = leat::comm::open("local:4");
//   for (leat::comm::Communicator& rank : all) group.go([&] { train(rank); });
//
// Ranks call collectives in the same order. Collectives are numbered from 0 on each communicator,
// and each rank tells the others what it calls. If two ranks call different things, every rank gets
// a CommMismatch. Operations of different communicators are not ordered.
//
// Results have the same bits on all ranks, in all runs, on "local" and on "mpi": each element is
// x_0 + x_1 + …, from rank 0 up, in fp32 for fp32, fp16 and bf16, rounded once at the end. Sums in
// device memory are NCCL's, with the same bits on all ranks.
//
// Data is in host memory, or on "nccl" in device memory. It belongs to the communicator until the
// operation has ended (completion.h). For gradients in device memory, use GradientExchange.
//
// Thread and fiber safety: every function may be called on any fiber and plain thread, also at the
// same time; but the order of collectives must be the same on all ranks.
//
// Errors: a call throws std::invalid_argument for a mistake of this rank alone; Completion::await()
// throws CommError and CommMismatch (error.h). Once communication has failed, every call throws.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "leat/comm/completion.h"
#include "leat/comm/error.h"
#include "leat/comm/link_model.h"
#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"
#include "leat/gpu/buffer.h"

namespace leat::comm {

/// The types that ranks can exchange: float, double, std::int32_t, std::int64_t, gpu::Float16,
/// gpu::BFloat16.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, gpu::Float16> || std::same_as<T, gpu::BFloat16>;

/// A view of elements: in host memory, of a vector, an array, a std::span, or untyped; or in the
/// memory of Communicator::device().
template <class Byte>
struct BasicElements {
  Byte* data = nullptr;
  std::uint64_t count = 0;
  DType dtype = DType::kFloat32;
  bool on_device = false;

  /// No elements.
  BasicElements() = default;
  /// `elements` elements of type `type`, from `first` on.
  BasicElements(Byte* first, std::uint64_t elements, DType type) noexcept
      : data(first), count(elements), dtype(type) {}
  /// The whole elements in `memory` of Communicator::device(); left-over bytes are ignored.
  BasicElements(const gpu::DeviceSpan& memory, DType type) noexcept
      : data(memory.data()),
        count(memory.size() / gpu::size_of(type)),
        dtype(type),
        on_device(true) {}
  /// A view of the elements of a contiguous range.
  template <std::ranges::contiguous_range R>
    requires Element<std::remove_cv_t<std::ranges::range_value_t<R>>> &&
        std::is_convertible_v<decltype(std::ranges::data(std::declval<R&>())), Byte*>
        // NOLINTNEXTLINE(google-explicit-constructor): a view
        BasicElements(R&& range)
  noexcept
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(gpu::kDTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>) {}
  /// The size of the view in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return count * gpu::size_of(dtype); }
};
using Elements = BasicElements<void>;
using ConstElements = BasicElements<const void>;

/// One rank's handle on the ranks of a communicator. Movable; an object that was moved from may
/// only be destroyed or assigned to. The destructor leaves: ranks that wait for this one then get a
/// CommMismatch.
class Communicator {
 public:
  /// For comm::open() and split().
  explicit Communicator(std::shared_ptr<Transport> transport);
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  /// This rank, 0 to size() - 1.
  [[nodiscard]] int rank() const noexcept;
  /// The number of ranks.
  [[nodiscard]] int size() const noexcept;
  /// The device whose memory may hold data ("nccl"); null if there is none. The work that writes
  /// the data must have run before an operation is called. Once the operation has completed, every
  /// stream may use the result. An operation's data is in device memory on all ranks or on none.
  [[nodiscard]] const gpu::Device* device() const noexcept;

  /// Sends `data` to rank `to`. Completes once the recv there has the data. The k-th send of a key
  /// meets the k-th recv of that key.
  Completion send(const ConstElements& data, int to, std::uint64_t key = 0) const;
  /// Receives from rank `from`; count and type must equal the send's.
  Completion recv(const Elements& data, int from, std::uint64_t key = 0) const;
  /// Combines `data` of all ranks, element by element, into `data` of all ranks.
  Completion all_reduce(const Elements& data, Reduction reduction = Reduction::kSum) const;
  /// As above, from `in` to `out`, which have equal count and type. They may be the same memory,
  /// but must not overlap otherwise.
  Completion all_reduce(const ConstElements& in, const Elements& out,
                        Reduction reduction = Reduction::kSum) const;
  /// Combines `in` of all ranks. `out` gets this rank's chunk of the result, and has its count:
  /// elements floor(m·r/n) to floor(m·(r+1)/n) of m = in.count. `out` may be that chunk of `in`,
  /// but must not overlap `in` otherwise.
  Completion reduce_scatter(const ConstElements& in, const Elements& out,
                            Reduction reduction = Reduction::kSum) const;
  /// Copies the chunks of all ranks, in the order of ranks, to `out` of every rank. `in` is this
  /// rank's chunk of out.count elements, as in reduce_scatter. It may lie at its place in `out`.
  Completion all_gather(const ConstElements& in, const Elements& out) const;
  /// Copies `data` of rank `root` to `data` of all ranks.
  Completion broadcast(const Elements& data, int root) const;
  /// Completes once all ranks have called it.
  Completion barrier() const;

  /// Collective: makes a communicator of the ranks that give the same `color`, ordered by `key`,
  /// then by rank here. Returns none for a negative color. Waits for all ranks. Throws as
  /// Completion::await().
  [[nodiscard]] std::optional<Communicator> split(int color, int key = 0) const;
  /// Another communicator of the same ranks: split(0).
  [[nodiscard]] Communicator duplicate() const;
  /// Ends communication on all ranks: every operation fails, now and later, with a CommError that
  /// says `reason`. For a rank that cannot go on.
  void abort(const std::string& reason) const noexcept;

  /// For the other parts of comm.
  [[nodiscard]] const std::shared_ptr<Transport>& transport() const noexcept { return transport_; }

 private:
  [[nodiscard]] Completion begin(Signature signature, int peer, const ConstElements& in,
                                 const ConstElements& out) const;

  std::shared_ptr<Transport> transport_;
  struct Shared;  // what calls change; at one address, also if the handle moves
  std::unique_ptr<Shared> shared_;
};

/// Opens the ranks of this process:
///   "local:N"  N ranks, all here; each is used by a fiber or a thread of its own
///   "mpi"      one rank, of those that mpirun started; link leat::comm_mpi
///   "nccl:N"   as "local:N", with a GPU for each rank; NCCL moves data in device memory
///   "nccl"     as "mpi", with a GPU for each rank; NCCL moves data in device memory
///
/// NCCL is the library libnccl.so.2, or what the environment variable LEAT_NCCL_LIBRARY names.
///
/// Called on a fiber of a scheduler with a VirtualClock, "local" runs on that scheduler and clock.
/// Otherwise communication has a scheduler of its own. Throws leat::Error for an unknown name or a
/// transport that is not available, std::invalid_argument for an option out of range.
[[nodiscard]] std::vector<Communicator> open(std::string_view name,
                                             const OpenOptions& options = {});

}  // namespace leat::comm
