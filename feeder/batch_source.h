// Batch sources: datasets whose batches are made as a whole, by other code than a reader's.
//
// A dataset is read sample by sample. A batch source is asked once for each batch: it gets the keys
// of the batch and the memory of a slot, has all tensors written there, and says which tensors they
// are. So code outside of this process can fill pinned memory: the slots of a source are memfds,
// which other processes map. Batches may differ in names, types and shapes of their tensors.
//
// Example: the numbers of the samples
//   class Numbers final : public leat::feeder::BatchSource {
//    public:
//     std::string_view name() const noexcept override { return "numbers"; }
//     std::uint64_t size() const noexcept override { return 1000; }
//     void fill(BatchFill& batch) const override {
//       const auto samples = std::as_bytes(batch.samples());
//       batch.grow(samples.size());
//       std::ranges::copy(samples, batch.memory().begin());
//       const std::array tensors{PlacedTensor{
//           "number", DType::kUint64, {std::ssize(batch.samples())}, 0}};
//       batch.filled({.layout = layout_of(tensors), .rows = batch.samples().size()});
//     }
//   };
//
// The order is Leat's, of sample numbers, or the caller's (Order::kDrawn): then a batch has any
// keys, and counts by its number (Feed::draw).
//
// A prefetcher of a source has no packing, slot checks, device transform, autotune or padding: what
// is in a batch is the source's affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/mutex.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/failures.h"

namespace leat::feeder {

class BatchLayout;
class SlotRing;
struct PinnedSlot;

/// A tensor of a batch, and where it lies in the slot.
struct PlacedTensor {
  std::string name;  ///< as Lease::operator[] takes it; no two have one name
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;  ///< of the batch, row-major; {}: a scalar. May have no elements
  std::size_t offset = 0;           ///< in the slot: a multiple of 256
};

/// Returns the layout of a batch with these tensors, which any number of batches may share. Throws
/// leat::Error for two tensors that overlap or have one name, and for an offset or a shape that
/// cannot be.
[[nodiscard]] std::shared_ptr<const BatchLayout> layout_of(std::span<const PlacedTensor> tensors);

/// The keys of a batch that the caller draws. What they mean is known to the source.
struct DrawnKeys {
  std::string bytes;
  std::uint32_t kind = 0;
  std::size_t rows = 0;  ///< samples: how far the next batch's first sample is, Random's number
};

/// What a source says of a batch that it has filled.
struct FilledBatch {
  std::shared_ptr<const BatchLayout> layout;  ///< layout_of()
  std::size_t rows = 0;                       ///< samples
  std::string opaque;                         ///< goes with the batch, and stays on the host
  /// Samples that were left out, by number, with the texts of their errors.
  std::vector<std::pair<std::uint64_t, std::string>> failed;
  /// When it was filled, and what that computed. nullopt: as long as fill() took.
  struct Times {
    TimePoint begin;
    TimePoint end;
    Duration cpu = Duration::zero();
  };
  std::optional<Times> times;
};

/// One batch failed, and the feed goes on with the next: Feed::next() throws it in the batch's
/// place, and the batch does not count. BatchFill::fail() throws it.
class BatchError : public Error {
 public:
  /// `text` is what().
  BatchError(const std::string& text, std::uint64_t epoch, std::uint64_t batch, std::string payload,
             std::optional<std::uint64_t> sample)
      : Error(text), epoch_(epoch), batch_(batch), payload_(std::move(payload)), sample_(sample) {}

  /// Returns the epoch of the batch.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// Returns the batch's number in its epoch.
  [[nodiscard]] std::uint64_t batch() const noexcept { return batch_; }
  /// Returns the source's own account of the failure.
  [[nodiscard]] const std::string& payload() const noexcept { return payload_; }
  /// Returns the number of the sample that failed, if it is known.
  [[nodiscard]] std::optional<std::uint64_t> sample() const noexcept { return sample_; }

 private:
  std::uint64_t epoch_;
  std::uint64_t batch_;
  std::string payload_;
  std::optional<std::uint64_t> sample_;
};

/// A batch that is to be filled. Valid during BatchSource::fill(). For one fiber.
class BatchFill {
 public:
  BatchFill(const BatchFill&) = delete;
  BatchFill& operator=(const BatchFill&) = delete;

  /// Returns which of the prefetcher's readers asks: below PrefetcherOptions::workers.
  [[nodiscard]] std::size_t reader() const noexcept { return reader_; }
  /// Returns the epoch that the batch is for.
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// Returns the number of the batch in its epoch. Of a bound source: how many slots came before,
  /// which is not the number that the batch is delivered with.
  [[nodiscard]] std::uint64_t index() const noexcept;
  /// Returns a number that no other beginning of an epoch has in this process.
  [[nodiscard]] std::uint64_t pass() const noexcept;
  /// Returns PrefetcherOptions::seed.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// Returns the numbers of the samples, in Leat's order; none if the caller draws the order.
  [[nodiscard]] std::span<const std::uint64_t> samples() const noexcept { return samples_; }
  /// Returns what the caller has drawn.
  [[nodiscard]] const DrawnKeys& drawn() const noexcept;
  /// Returns how many rows the caller has drawn before this batch in its epoch.
  [[nodiscard]] std::uint64_t first() const noexcept;

  /// Returns the slot's number in its prefetcher.
  [[nodiscard]] std::size_t slot() const noexcept;
  /// Returns the memory of the slot, which may have no bytes yet. Not initialised.
  [[nodiscard]] std::span<std::byte> memory() const noexcept;
  /// Returns the memfd of the memory, which the slot owns; -1 if there is no memory.
  [[nodiscard]] int descriptor() const noexcept;
  /// Returns the number of the memory, which no other memory has in this process.
  [[nodiscard]] std::uint64_t memory_number() const noexcept;
  /// Replaces the memory if it has less than `bytes` bytes. What exceeds the slot's share of
  /// PrefetcherOptions::max_pinned_bytes is not pinned: it takes one more copy. Throws OutOfMemory.
  void grow(std::size_t bytes);

  /// The reader has been told of this batch, and may be asked for the next one now, instead of when
  /// fill() returns (BatchSource::requests). So readers are asked in the order of the slots.
  void asked() noexcept {
    if (asking_.owns_lock()) asking_.unlock();
  }
  /// The batch is in memory(). Throws leat::Error if its tensors are not.
  void filled(FilledBatch batch);
  /// Throws BatchError: this batch has failed, because of `why`.
  [[noreturn]] void fail(const std::string& why, std::string payload = {},
                         std::optional<std::uint64_t> sample = std::nullopt) const;
  /// There is no such batch: nothing is delivered in its place.
  void skip() noexcept { skips_ = true; }

 private:
  friend class SourceReader;
  BatchFill(PinnedSlot& slot, SlotRing& ring, std::size_t reader, std::uint64_t seed,
            std::uint64_t first_pass, std::span<const std::uint64_t> samples,
            std::size_t most_bytes, std::unique_lock<Mutex>& asking) noexcept
      : asking_(asking),
        slot_(slot),
        ring_(ring),
        reader_(reader),
        seed_(seed),
        first_pass_(first_pass),
        samples_(samples),
        most_bytes_(most_bytes) {}

  std::unique_lock<Mutex>& asking_;  // one call of fill() for the reader has it
  PinnedSlot& slot_;
  SlotRing& ring_;
  const std::size_t reader_;
  const std::uint64_t seed_;
  const std::uint64_t first_pass_;
  const std::span<const std::uint64_t> samples_;
  const std::size_t most_bytes_;  // of the device's pinned slots; 0: no limit
  std::optional<FilledBatch::Times> times_;
  bool skips_ = false;
};

/// Makes batches as a whole. size() is the number of samples; with Order::kDrawn it is not asked
/// for.
class BatchSource : public Dataset {
 public:
  /// Has one batch filled: calls BatchFill::filled() or skip(). Called on a reader's fiber; each
  /// reader has requests() calls at a time. It may wait by Leat's means, but must not block its
  /// thread.
  /// Throws BatchError for a failure of this batch alone; any other exception ends the feed.
  virtual void fill(BatchFill& batch) const = 0;

  /// Returns for how many batches each reader may be asked at a time (BatchFill::asked): with 2,
  /// the next one is there when it has filled one. A bound source's readers are asked for one.
  [[nodiscard]] virtual std::size_t requests() const noexcept { return 1; }
  /// Returns whether each reader has batches of its own, in turns, until it has no more: reader
  /// `r` of n makes every n-th batch. Then the order is kDrawn, and nobody draws.
  [[nodiscard]] virtual bool is_bound() const noexcept { return false; }
  /// Returns whether that reader has no more batches in that pass (BatchFill::pass).
  [[nodiscard]] virtual bool has_ended(std::size_t /*reader*/,
                                       std::uint64_t /*pass*/) const noexcept {
    return false;
  }

  [[nodiscard]] std::span<const Field> fields() const noexcept final { return {}; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 0; }
  /// Throws std::logic_error: a source has no samples by themselves.
  void read(std::uint64_t index, Sample& out) const final;
  [[nodiscard]] const BatchSource* as_batch_source() const noexcept final { return this; }
};

}  // namespace leat::feeder
