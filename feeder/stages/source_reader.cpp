#include "leat/feeder/stages/source_reader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "leat/feeder/state/epoch_plan.h"

namespace leat::feeder {

bool is_bound(const BatchSource* source) noexcept {
  return source != nullptr && source->is_bound();
}

std::size_t requests_of(const BatchSource* source) noexcept {
  return source == nullptr || source->is_bound() ? 1 : source->requests();
}

std::vector<Channel<PinnedSlot*>> channels_of_work(const BatchSource* source, std::size_t readers,
                                                   std::int64_t slots) {
  std::vector<Channel<PinnedSlot*>> work;
  for (std::size_t i = 0; i < (is_bound(source) ? readers : 1); ++i) {
    work.emplace_back(slots, "slots to fill");
  }
  return work;
}

std::uint64_t SourceReader::new_passes() noexcept {
  static std::atomic<std::uint64_t> prefetchers{0};
  return prefetchers.fetch_add(1, std::memory_order_relaxed) << 32;
}

void SourceReader::list_samples(const PinnedSlot& slot) {
  samples_.clear();
  if (shared_.options.order == Order::kDrawn) return;
  for (const PositionRange& range : slot.positions) {
    const std::size_t before = samples_.size();
    samples_.resize(before + static_cast<std::size_t>(range.count));
    shared_.sampler.at(slot.batch.epoch, range.first, std::span(samples_).subspan(before));
  }
}

bool SourceReader::fill(PinnedSlot& slot, SlotRing& ring, std::unique_lock<Mutex>& asking) {
  PinnedSlot::Sourced& own = slot.of_source;
  const TimePoint start = now();
  reading_.begin(slot.batch, start);
  list_samples(slot);
  slot.attempted = samples_.size();
  slot.failures.clear();
  std::optional<FilledBatch::Times> times;
  try {
    BatchFill batch(slot, ring, number_, shared_.options.seed, shared_.first_pass, samples_,
                    shared_.options.max_pinned_bytes, asking);
    shared_.source.fill(batch);
    own.is_skipped = batch.skips_;
    times = batch.times_;
  } catch (const BatchError&) {
    slot.error = std::current_exception();
    own.is_error_of_batch = true;
  } catch (const Error&) {
    slot.error = std::current_exception();
  }
  reading_.end();
  const TimePoint end = now();
  slot.reader = number_;
  slot.read = {.begin = start, .end = end};
  slot.cost = {};
  if (times.has_value() && !shared_.is_virtual) {
    slot.read.begin = std::clamp(times->begin, start, end);
    slot.read.end = std::clamp(times->end, slot.read.begin, end);
    slot.cost.cpu = times->cpu;
  }
  return slot.error == nullptr && !own.is_skipped;
}

bool BoundBatches::is_released(PinnedSlot& slot) {
  if (slot.ends_epoch) return false;
  if (std::exchange(generation_, slot.generation) != slot.generation) next_ = 0;
  slot.batch.index = next_++;
  const EpochReleases* const released =
      slot.of_source.is_rest ? log_.resumed(slot.batch.epoch) : nullptr;
  return !EpochPlan(plan_, released).has(slot.batch.index);
}

}  // namespace leat::feeder
