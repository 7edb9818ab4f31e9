#include "leat/feeder/prefetcher.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/csp/woken_by.h"
#include "leat/feeder/slot_ring.h"
#include "leat/feeder/stages.h"

namespace leat::feeder {
namespace {

// Of one kind. Far beyond what helps; what exceeds it is a mistake, told before memory is asked
// for.
constexpr std::size_t kMostSlots = 4096;

PrefetcherOptions checked(PrefetcherOptions options) {
  const auto check = [](std::size_t value, std::size_t most, const char* name) {
    if (value >= 1 && value <= most) return;
    throw std::invalid_argument(std::string("leat: PrefetcherOptions: ") + name + " is " +
                                std::to_string(value) + "; it must be " +
                                (value == 0 ? "at least 1" : "at most " + std::to_string(most)));
  };
  check(options.batch_size, std::numeric_limits<std::size_t>::max(), "batch_size");
  check(options.prefetch_depth, kMostSlots, "prefetch_depth");
  check(options.max_leases, kMostSlots, "max_leases");
  check(options.workers, kMostSlots, "workers");
  if (options.pinned_slots != 0) check(options.pinned_slots, kMostSlots, "pinned_slots");
  if (options.pinned_slots == 0) {
    options.pinned_slots = std::max<std::size_t>(options.workers + options.prefetch_depth, 2);
  }
  return options;
}

// In one batch: a batch larger than the dataset needs no more room than the dataset.
std::size_t most_samples(const Dataset& dataset, const PrefetcherOptions& options) {
  const std::uint64_t samples = std::max<std::uint64_t>(dataset.size(), 1);
  return static_cast<std::size_t>(std::min<std::uint64_t>(options.batch_size, samples));
}

}  // namespace

// In the order of construction; the stages end first, the scheduler that they run on last.
struct Prefetcher::Parts {
  Parts(const Dataset& dataset, const gpu::Device& device, const PrefetcherOptions& given)
      : options(checked(given)),
        own(on_fiber() ? nullptr : std::make_unique<Scheduler>()),
        scheduler(own ? own->core() : current_scheduler("Prefetcher").shared_from_this()),
        ring(std::make_shared<SlotRing>(
            device, BatchLayout(dataset, most_samples(dataset, options)), options.pinned_slots,
            options.max_leases + options.prefetch_depth - 1, options.workers,
            options.prefetch_depth, options.sample_every)),
        stages(dataset, options, ring),
        group(own ? std::make_unique<TaskGroup>(*own) : std::make_unique<TaskGroup>()) {}

  const PrefetcherOptions options;
  const std::unique_ptr<Scheduler> own;
  const std::shared_ptr<SchedulerCore> scheduler;  // of the stages
  const std::shared_ptr<SlotRing> ring;
  Stages stages;
  const std::unique_ptr<TaskGroup> group;

  // The consumer's side.
  std::uint64_t generation = 0;  // of the latest request; 0: nothing was requested yet
  std::uint64_t next_epoch = 0;  // that follows in the stream of batches
  bool in_epoch = false;         // its beginning was consumed, its end was not
  std::string failure;           // why the stages have ended, once the consumer was told
};

Prefetcher::Prefetcher(const Dataset& dataset, const gpu::Device& device,
                       const PrefetcherOptions& options)
    : parts_(std::make_unique<Parts>(dataset, device, options)) {
  parts_->stages.launch(*parts_->group);
}

Prefetcher::~Prefetcher() = default;

Epoch Prefetcher::epoch(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return {*this, epoch, stream};
}

Epoch Prefetcher::epoch(std::uint64_t epoch) { return {*this, epoch, std::nullopt}; }

std::uint64_t Prefetcher::batches_per_epoch() const noexcept {
  return parts_->stages.batches_per_epoch();
}

Stats Prefetcher::stats() const { return parts_->ring->stats.snapshot(); }

void Prefetcher::start(std::uint64_t epoch) {
  Parts& parts = *parts_;
  if (parts.generation == 0 || parts.in_epoch || parts.next_epoch != epoch) {
    std::optional<Request> unseen;
    static_cast<void>(parts.ring->requests.try_recv(unseen));
    static_cast<void>(
        parts.ring->requests.try_send({.epoch = epoch, .generation = ++parts.generation}));
    parts.next_epoch = epoch;
  }
  parts.in_epoch = true;
}

std::optional<Lease> Prefetcher::next() {
  Parts& parts = *parts_;
  if (!parts.failure.empty()) {
    throw Error("leat: the prefetcher has stopped because of an earlier error: " + parts.failure);
  }
  if (parts.ring->outstanding.load(std::memory_order_relaxed) >= parts.options.max_leases) {
    throw std::logic_error("leat: next() while " + std::to_string(parts.options.max_leases) +
                           " leases are held, which is max_leases: release one first");
  }
  if (!parts.in_epoch) start(parts.next_epoch);
  const TimePoint asked = now();
  const WokenBy waking(*parts.scheduler);  // it need not be the consumer's
  for (;;) {
    std::optional<Delivery> delivery;
    try {
      delivery = parts.ring->ready.recv();
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception& e) {
      parts.failure = e.what();
      throw;
    }
    if (delivery->generation != parts.generation) {
      if (delivery->slot != nullptr) parts.ring->give_back(*delivery->slot, DeviceState::kReady);
    } else if (delivery->slot == nullptr) {
      parts.in_epoch = false;
      ++parts.next_epoch;
      return std::nullopt;
    } else {
      return Lease(parts.ring, *delivery->slot, now() - asked);
    }
  }
}

void Prefetcher::announce(const gpu::StreamRef& stream) {
  if (stream.device() == parts_->ring->device) parts_->ring->stats.asked(stream);
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
