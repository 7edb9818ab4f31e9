#include <algorithm>
#include <stdexcept>
#include <utility>

#include "leat/csp/blocking.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stats/figures.h"

namespace leat::feeder {

void BatchSource::read(std::uint64_t /*index*/, Sample& /*out*/) const {
  throw std::logic_error("leat: \"" + std::string(name()) +
                         "\" makes batches as a whole: it has no sample by itself");
}

std::uint64_t BatchFill::epoch() const noexcept { return slot_.batch.epoch; }
std::uint64_t BatchFill::index() const noexcept { return slot_.batch.index; }
std::uint64_t BatchFill::pass() const noexcept { return first_pass_ + slot_.generation; }
const DrawnKeys& BatchFill::drawn() const noexcept { return slot_.of_source.keys; }
std::uint64_t BatchFill::first() const noexcept { return slot_.of_source.first; }
std::size_t BatchFill::slot() const noexcept {
  return slot_.rank * ring_.pinned().size() + slot_.number;
}

std::uint64_t BatchFill::memory_number() const noexcept { return slot_.of_source.memory_number; }

std::span<std::byte> BatchFill::memory() const noexcept {
  const auto& arena = slot_.of_source.arena;
  return arena == nullptr ? std::span<std::byte>() : arena->shared();
}

int BatchFill::descriptor() const noexcept {
  const auto& arena = slot_.of_source.arena;
  return arena == nullptr ? -1 : arena->descriptor();
}

// A slot that has had a batch gets a quarter more: batches that vary would replace it again and
// again.
void BatchFill::grow(std::size_t bytes) {
  const auto whole = [](std::size_t size) {  // as a layout ends
    return (size + BatchLayout::kAlignment - 1) / BatchLayout::kAlignment * BatchLayout::kAlignment;
  };
  bytes = whole(bytes);
  const std::size_t has = slot_.memory.size();
  if (bytes <= has) return;
  // Each slot has a share of the limit, so whether a batch is pinned depends on nothing else.
  const std::size_t most = most_bytes_ == 0 ? ~std::size_t{0} : most_bytes_ / ring_.pinned().size();
  const std::size_t more = has == 0 ? bytes : whole(bytes + bytes / 4);
  const bool pins = bytes <= most;
  blocking([&] { ring_.replace_memory(slot_, pins ? std::min(more, most) : bytes, pins); });
}

void BatchFill::fail(const std::string& why, std::string payload,
                     std::optional<std::uint64_t> sample) const {
  throw BatchError("leat: " + name_of(slot_.batch) + " failed: " + why, epoch(), index(),
                   std::move(payload), sample);
}

void BatchFill::filled(FilledBatch batch) {
  if (batch.layout == nullptr || batch.layout->bytes() > slot_.memory.size()) {
    throw Error("leat: " + name_of(slot_.batch) + " has tensors beyond the end of its slot");
  }
  PinnedSlot::Sourced& own = slot_.of_source;
  own.arena->take_over(batch.layout->bytes());
  own.layout = std::move(batch.layout);
  own.opaque = std::move(batch.opaque);
  slot_.batch.samples = slot_.batch.rows = batch.rows;
  slot_.attempted = batch.rows + batch.failed.size();
  for (auto& [sample, text] : batch.failed) {
    Failure& failure = slot_.failures.emplace_back();
    failure.sample.stage = FailingStage::kRead;
    failure.sample.epoch = slot_.batch.epoch;
    failure.sample.batch = slot_.batch.index;
    failure.sample.sample = sample;
    failure.sample.error = text;
    failure.attempted = batch.rows;
    failure.cause = std::make_exception_ptr(Error(text));
  }
  times_ = batch.times;
}

}  // namespace leat::feeder
