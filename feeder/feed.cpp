#include "leat/feeder/feed.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/woken_by.h"
#include "leat/feeder/slot_ring.h"
#include "leat/feeder/stages.h"

namespace leat::feeder {

Feed::Feed(Made made)
    : ring_(std::move(made.ring)),
      stages_(*made.stages),
      scheduler_(*made.scheduler),
      rank_(made.rank),
      batches_(made.batches),
      max_leases_(made.max_leases),
      is_shared_(made.is_shared),
      next_epoch_(made.first_epoch),
      pass_(PassId::kNone) {}

const gpu::Device& Feed::device() const noexcept { return ring_->device; }

Epoch Feed::epoch(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return {*this, epoch, stream};
}

Epoch Feed::epoch(std::uint64_t epoch) { return {*this, epoch, std::nullopt}; }

Stats Feed::stats() const {
  Stats stats = ring_->stats.snapshot();
  stats.decisions = stages_.decisions();
  return stats;
}

void Feed::start(std::uint64_t epoch) {
  bool is_rest = true;  // an epoch that comes once has its rest, if it has one
  if (is_shared_) {
    if (epoch < next_epoch_ || (in_epoch_ && epoch == next_epoch_)) {
      throw std::logic_error("leat: epoch " + std::to_string(epoch) +
                             " is over: with dynamic sharing, epochs only go forward");
    }
    next_epoch_ = epoch;
    stages_.requests.ask_shared(epoch);
  } else {
    is_rest = start_static(epoch);
  }
  pass_ = ring_->log->begin(ring_->rank, generation_, epoch, is_rest);
  in_epoch_ = true;
}

// True if it is the rest of an epoch that was resumed.
bool Feed::start_static(std::uint64_t epoch) {
  if (generation_ == 0 || in_epoch_ || next_epoch_ != epoch) {
    Request request = stages_.requests.ask(ring_->rank, epoch, generation_);
    generation_ = request.generation;
    rests_ = std::move(request.rests);
    next_epoch_ = epoch;
  }
  stages_.requests.begun(ring_->rank, epoch);
  return std::ranges::find(rests_, epoch) != rests_.end();
}

Staged Feed::receive() {
  if (early_.has_value()) {
    const Staged staged = *early_;
    early_.reset();
    return staged;
  }
  const WokenBy waking(scheduler_);  // it need not be the consumer's
  try {
    return *ring_->ready.recv();
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& e) {
    failure_ = e.what();
    throw;
  }
}

std::optional<Lease> Feed::next() {
  if (!failure_.empty()) {
    throw Error("leat: the prefetcher has stopped because of an earlier error: " + failure_);
  }
  if (ring_->outstanding.load(std::memory_order_relaxed) >= max_leases_) {
    throw std::logic_error("leat: next() while " + std::to_string(max_leases_) +
                           " leases are held, which is max_leases: release one first");
  }
  if (!in_epoch_) start(next_epoch_);
  const TimePoint asked = now();
  for (;;) {
    const Staged staged = receive();
    const bool is_stale = is_shared_ ? staged.epoch < next_epoch_ : staged.generation < generation_;
    if (is_stale) {
      if (staged.slot != nullptr) ring_->give_back(*staged.slot, DeviceState::kReady);
      continue;
    }
    if (staged.epoch > next_epoch_) early_ = staged;  // the others have left none of ours
    if (staged.slot == nullptr || early_.has_value()) {
      in_epoch_ = false;
      ++next_epoch_;
      return std::nullopt;
    }
    const Duration waited = now() - asked;
    if (ring_->checks != nullptr) check(*staged.slot);
    return Lease(ring_, *staged.slot, pass_, waited);
  }
}

void Feed::check(DeviceSlot& slot) {
  try {
    ring_->checks->before_hand_out(slot);
  } catch (const std::exception& e) {
    failure_ = e.what();
    ring_->give_back(slot, DeviceState::kReady);
    throw;
  }
}

void Feed::announce(const gpu::StreamRef& stream) {
  if (stream.device() == ring_->device) ring_->stats.asked(stream);
}

Epoch::Iterator Epoch::begin() {
  current_.reset();  // a lease of an earlier pass
  feed_.start(number_);
  advance();
  return Iterator(*this);
}

void Epoch::advance() {
  current_.reset();
  if (stream_.has_value()) feed_.announce(*stream_);
  current_ = feed_.next();
  if (current_.has_value() && stream_.has_value()) current_->on(*stream_);
}

}  // namespace leat::feeder
