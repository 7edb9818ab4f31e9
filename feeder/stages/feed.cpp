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

std::optional<Lease> Feed::next() { return consumer_->next(); }

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
  current_.reset();
  if (stream_.has_value()) consumer_.announce(*stream_);
  current_ = consumer_.next();
  if (current_.has_value() && stream_.has_value()) current_->on(*stream_);
}

}  // namespace leat::feeder
