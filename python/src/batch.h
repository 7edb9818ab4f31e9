// leat.Batch: the tensors of a batch by name, and when the batch counts.
//
// Ownership: a Batch has a share of the lease, and caches the arrays that it has handed out. The
// slot goes back once the Batch is gone or released, and all arrays made of it are gone.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <utility>

#include "leat/feeder/receipt.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/share.h"

namespace leat::python {

/// Whether a batch counts as trained on. The Batch and the loop that made it share one. Used with
/// the GIL held.
class Counting {
 public:
  /// Counts by `receipt`, which a lease has given.
  explicit Counting(feeder::Receipt receipt) noexcept : receipt_(std::move(receipt)) {}
  /// Counts the batch. Later calls have no effect. In a forked child, none has.
  void commit();
  /// Whether commit() was called.
  [[nodiscard]] bool is_committed() const noexcept { return committed_; }
  /// For Prefetcher::state(receipts) while the batch is in hand. Not empty before commit().
  [[nodiscard]] const feeder::Receipt& receipt() const noexcept { return receipt_; }

 private:
  feeder::Receipt receipt_;
  bool committed_ = false;
};

/// What a Batch is made of.
struct NewBatch {
  std::shared_ptr<Share> share;        ///< On the CPU, of a batch whose copy is done.
  std::shared_ptr<Counting> counting;  ///< Of the same batch.
  nanobind::object framework;          ///< An adapter of leat.frameworks.
  /// Import and copy all tensors now, into the framework's own memory, and drop the share.
  bool copy = false;
};
/// Makes a leat.Batch. Throws what the framework raises while it imports or copies.
[[nodiscard]] nanobind::object make_batch(NewBatch parts);

/// The stream that is current in the framework, for `next` and for a batch's use. Nothing on a
/// device whose memory is the host's, and for a framework without a current stream.
[[nodiscard]] std::optional<gpu::StreamRef> current_stream(nanobind::handle framework,
                                                           const gpu::Device& device);

}  // namespace leat::python
