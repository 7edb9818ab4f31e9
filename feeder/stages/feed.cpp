#include "leat/feeder/feed.h"

#include <utility>

#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stages/consumer.h"

namespace leat::feeder {

Feed::Feed(std::unique_ptr<Consumer> consumer) noexcept : consumer_(std::move(consumer)) {}

Feed::~Feed() = default;

Epoch Feed::epoch(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return {*consumer_, epoch, stream};
}

Epoch Feed::epoch(std::uint64_t epoch) { return {*consumer_, epoch, std::nullopt}; }

Receiver<Lease> Feed::receiver(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return consumer_->receiver(epoch, stream);
}

Receiver<Lease> Feed::receiver(std::uint64_t epoch) {
  return consumer_->receiver(epoch, std::nullopt);
}

std::optional<Lease> Feed::next() {
  std::optional<Lease> lease;
  static_cast<void>(consumer_->next(lease, Deadline::never(), nullptr));
  return lease;
}

void Feed::start(std::uint64_t epoch) {
  consumer_->end_receiver();
  consumer_->start(epoch);
}

void Feed::draw(DrawnKeys keys) {
  consumer_->draw({.generation = 0, .keys = std::move(keys), .ends_epoch = false});
}

void Feed::end_draws() { consumer_->draw({.generation = 0, .keys = {}, .ends_epoch = true}); }

ChannelStatus Feed::next_until(std::optional<Lease>& lease, TimePoint deadline) {
  return consumer_->next(lease, Deadline(deadline), nullptr);
}

ChannelStatus Feed::next_until(std::optional<Lease>& lease, TimePoint deadline,
                               const gpu::StreamRef& stream) {
  return consumer_->next(lease, Deadline(deadline), &stream);
}

std::size_t Feed::rank() const noexcept { return consumer_->rank(); }

const gpu::Device& Feed::device() const noexcept { return consumer_->ring().device; }

std::uint64_t Feed::batches_per_epoch() const noexcept { return consumer_->batches(); }

Stats Feed::stats() const { return consumer_->stats(); }

void Feed::reset_stats() { consumer_->ring().stats.reset(); }

Epoch::Iterator Epoch::begin() {
  current_.reset();  // may hold a lease of an earlier pass
  consumer_.end_receiver();
  consumer_.start(number_);
  advance();
  return Iterator(*this);
}

void Epoch::advance() {
  static_cast<void>(
      consumer_.next(current_, Deadline::never(), stream_.has_value() ? &*stream_ : nullptr));
}

}  // namespace leat::feeder
