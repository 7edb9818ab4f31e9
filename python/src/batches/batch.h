// leat.Batch: the tensors of a batch by name, and when the batch counts.
//
// A program that walks over a batch may make another of what it found: type(batch)({...}), as
// trainers do that move tensors to a device. Such a batch has no lease, and the numbers of the
// batch that was walked over.
//
// Ownership: a Batch has a share of the lease, and caches the arrays that it has handed out. The
// slot goes back once the Batch is gone or released, and all that was made of its tensors is gone.
//
// Thread safety: all of it is used with the GIL held. Where a function runs Python code, another
// thread may use or release the batch meanwhile.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/base/home_process.h"
#include "leat/feeder/receipt.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/batches/share.h"
#include "leat/python/batches/tensor.h"

namespace leat::python {

/// Whether a batch counts as trained on. The Batch and the loop that made it share one. Used with
/// the GIL held.
class Counting {
 public:
  /// Counts by `receipt`, which a lease has given.
  explicit Counting(feeder::Receipt receipt) : receipt_(new feeder::Receipt(std::move(receipt))) {}
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  /// Counts the batch. Later calls have no effect. In a forked child, none has.
  void commit() noexcept;
  /// Whether commit() was called.
  [[nodiscard]] bool is_committed() const noexcept { return committed_; }
  /// For Prefetcher::state(receipts) while the batch is in hand. Empty after commit().
  [[nodiscard]] const feeder::Receipt& receipt() const noexcept { return *receipt_; }

 private:
  const HomeProcess home_;
  std::unique_ptr<feeder::Receipt> receipt_;
  bool committed_ = false;
};

/// What a Batch is made of.
struct NewBatch {
  std::shared_ptr<Share> share;        ///< On the CPU, of a batch whose copy is done.
  std::shared_ptr<Counting> counting;  ///< Of the same batch; null: it does not count.
  nanobind::object framework;          ///< An adapter of leat.frameworks.
  /// Copy all tensors now, into the framework's own memory, and drop the share.
  bool copy = false;
};

/// A batch's numbers, which stay readable after its release. See feeder::Lease.
struct BatchInfo {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  std::size_t size = 0;
  std::size_t rows = 0;
  std::size_t elements = 0;
  std::uint64_t step_size = 0;
  std::size_t step_shards = 0;
};

/// What leat.Batch is. Its Python type takes part in the garbage collection: a cached array may
/// refer to the batch.
class Batch {
 public:
  /// Throws what the framework raises while it copies.
  explicit Batch(NewBatch parts);
  /// A batch without a lease. Its numbers are those of the batch that this thread has walked over
  /// last, if that batch lives and no batch was made of it since; else it has none. Throws
  /// TypeError for a key that is no str.
  explicit Batch(const nanobind::dict& tensors);
  Batch(Batch&& other) noexcept = default;
  Batch& operator=(Batch&&) = delete;
  ~Batch();

  /// The batch's numbers; null: it has none.
  [[nodiscard]] const std::optional<BatchInfo>& info() const noexcept { return info_; }
  /// Its names are walked over, for a batch that is made next.
  void walk();
  /// Whether its tensors are copies: it was asked for while too many leases were held.
  [[nodiscard]] bool is_copied() const noexcept { return copied_; }
  /// What its reader says of it, beside the tensors; empty for a dataset of Leat's own.
  [[nodiscard]] const std::string& opaque() const noexcept { return opaque_; }
  /// The framework's arrays of all tensors, in order. As at().
  [[nodiscard]] nanobind::list arrays();
  /// The names of its tensors.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Whether it has a tensor of that name.
  [[nodiscard]] bool has(std::string_view name) const noexcept { return find(name).has_value(); }
  /// As "<leat.Batch 3 of epoch 0: x int32 [32, 1024], y int32 [32, 1024]>".
  [[nodiscard]] std::string repr() const;

  /// The framework's array of that tensor, made at the first call. On a GPU, also binds the stream
  /// that is current. Throws KeyError for an unknown name, ValueError after release(), and what the
  /// framework raises.
  [[nodiscard]] nanobind::object at(std::string_view name);
  /// Throws TypeError, with the names: `key` is no str.
  [[noreturn]] void refuse_key(nanobind::handle key) const;
  /// Binds one more stream to the lease, which stream_of() takes. Throws ValueError on the CPU and
  /// after release(), and as feeder::Lease::on does. Has no effect if the batch was copied.
  void on(nanobind::handle stream);
  /// Drops the cached arrays and the share of the lease. Later calls have no effect.
  void release();
  /// Counts the batch. Throws ValueError if it has no lease to count by.
  void commit();

  /// For the type's tp_traverse.
  int traverse(visitproc visit, void* arg) const;
  /// For the type's tp_clear: empties the cache. What was in it is returned, because dropping it
  /// may run Python code.
  [[nodiscard]] std::vector<nanobind::object> take_arrays() noexcept;

 private:
  /// A tensor of the batch, and what the framework has made of it.
  struct Field {
    TensorInfo info;         // without a lease, the name alone
    std::byte* data;         // null: without a lease
    nanobind::object array;  // not valid: not asked for yet
  };
  [[nodiscard]] std::string title() const;
  [[nodiscard]] std::string listed_names() const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;
  void refuse_released() const;
  [[nodiscard]] nanobind::object tensor(std::size_t i) const;
  void bind_current() const;
  void copy_all();
  void drop_share() noexcept;

  std::optional<BatchInfo> info_;
  std::string opaque_;
  std::shared_ptr<const BatchInfo> walked_;  // info_, for as long as the batch lives
  std::vector<Field> fields_;
  std::shared_ptr<Share> share_;        // null: released, or copied
  std::shared_ptr<Counting> counting_;  // null: it does not count
  nanobind::object framework_;
  bool copied_ = false;
  bool released_ = false;
};

/// Makes a leat.Batch. Throws what the framework raises while it copies.
[[nodiscard]] nanobind::object make_batch(NewBatch parts);

/// The stream that is current in the framework, for `next` and for a batch's use. Nothing on a
/// device whose memory is the host's, and for a framework without a current stream.
[[nodiscard]] std::optional<gpu::StreamRef> current_stream(nanobind::handle framework,
                                                           const gpu::Device& device);

}  // namespace leat::python
