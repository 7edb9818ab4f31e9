#include "leat/feeder/stages/consumer.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stages/stages.h"

namespace leat::feeder {
namespace {

// Thrown on the receiver's fiber when the consumer ends the receiver.
struct Ended {};

}  // namespace

struct Consumer::ReceiverState {
  ReceiverState(std::uint64_t number, std::optional<gpu::StreamRef> to_bind)
      : epoch(number), stream(std::move(to_bind)) {}

  const std::uint64_t epoch;
  const std::optional<gpu::StreamRef> stream;
  const Channel<Lease> batches{0, "batches"};
  const Channel<bool> stop{0, "the end of a receiver"};  // the consumer closes it
  Notification ended;                                    // the fiber no longer touches the feed

  // A case for select(): throws Ended once the consumer has ended the receiver.
  [[nodiscard]] auto on_stop() const {
    return on_recv(stop, [](std::optional<bool>) { throw Ended{}; });
  }
};

Consumer::Consumer(const Params& params)
    : ring_(params.ring),
      stages_(*params.stages),
      forwarders_(*params.forwarders),
      scheduler_(*params.scheduler),
      rank_(params.rank),
      batches_(params.batches),
      max_leases_(params.max_leases),
      is_shared_(params.is_shared),
      next_epoch_(params.first_epoch),
      pass_(PassId::kNone) {}

Consumer::Credit::~Credit() {
  if (ring_ != nullptr) ring_->give_back_credit();
}

Stats Consumer::stats() const {
  Stats stats = ring_->stats.snapshot();
  stages_.add_to(stats);
  return stats;
}

void Consumer::start(std::uint64_t epoch) {
  begin(epoch);
  pending_.reset();
}

void Consumer::draw(Draw draw) {
  draw.generation = generation_;
  stages_.requests.draw(std::move(draw));
}

void Consumer::begin(std::uint64_t epoch) {
  if (epoch > kLastEpoch) {
    throw std::invalid_argument("leat: there is no epoch " + std::to_string(epoch) +
                                "; the last one is " + std::to_string(kLastEpoch));
  }
  bool is_rest = true;  // shared epochs run once: the pass has the rest, if the epoch was resumed
  if (is_shared_) {
    if (epoch < next_epoch_ || (in_epoch_ && epoch == next_epoch_)) {
      throw std::logic_error("leat: epoch " + std::to_string(epoch) +
                             " is over: with dynamic sharing, epochs only go forward");
    }
    next_epoch_ = epoch;
    stages_.requests.ask_shared(epoch);
  } else {
    is_rest = begin_static(epoch);
  }
  pass_ = ring_->log->begin(ring_->rank, generation_, epoch, is_rest);
  in_epoch_ = true;
}

// Returns true if the pass has only the rest of a resumed epoch.
bool Consumer::begin_static(std::uint64_t epoch) {
  if (generation_ == 0 || in_epoch_ || next_epoch_ != epoch || !stages_.requests.across_epochs()) {
    Request request = stages_.requests.ask(ring_->rank, epoch, generation_);
    generation_ = request.generation;
    rests_ = std::move(request.rests);
    next_epoch_ = epoch;
  }
  stages_.requests.begun(ring_->rank, epoch);
  return std::ranges::find(rests_, epoch) != rests_.end();
}

// Returns nothing if the wait has timed out. (`ready` is closed with a cause, which is thrown.)
std::optional<Staged> Consumer::receive(Deadline deadline, const ReceiverState* receiver) {
  if (early_.has_value()) return std::exchange(early_, std::nullopt);
  const ExpectWakeFrom waking(scheduler_);  // may differ from the consumer's scheduler
  try {
    std::optional<Staged> staged;
    if (receiver == nullptr) {
      static_cast<void>(ring_->ready.recv_until(staged, deadline.at()));
    } else {
      select(on_recv(ring_->ready, [&](std::optional<Staged> one) { staged = std::move(one); }),
             receiver->on_stop());
    }
    return staged;
  } catch (const Cancelled&) {
    throw;
  } catch (const Ended&) {
    throw;
  } catch (...) {
    note_failure();
    throw;
  }
}

// Stores the text of the exception that is being handled.
void Consumer::note_failure() {
  failure_ = "of an unknown type";
  try {
    throw;
  } catch (const std::exception& e) {
    if (*e.what() != '\0') failure_ = e.what();
  } catch (...) {  // not a std::exception: no text
  }
}

void Consumer::check_not_failed() const {
  if (failure_.empty()) return;
  throw Error("leat: the prefetcher has stopped because of an earlier error: " + failure_);
}

ChannelStatus Consumer::next(std::optional<Lease>& lease, Deadline deadline,
                             const gpu::StreamRef* stream) {
  lease.reset();
  if (receiver_ != nullptr && !receiver_->ended.has_been_notified()) {
    throw std::logic_error("leat: next() while a receiver of epoch " +
                           std::to_string(receiver_->epoch) +
                           " is open: receive from that, or begin an epoch, which ends it");
  }
  home_.require("a Prefetcher");
  check_not_failed();
  BatchRequest request = pending_.has_value() ? *std::move(pending_) : ask(stream);
  pending_.reset();
  const ChannelStatus status = take(lease, request, deadline, nullptr);
  if (status == ChannelStatus::timed_out) pending_.emplace(std::move(request));
  if (lease.has_value() && stream != nullptr) lease->on(*stream);
  return status;
}

// Asks for the next batch. What a receiver's fiber asks for, nobody has asked it for.
Consumer::BatchRequest Consumer::ask(const gpu::StreamRef* stream) {
  std::optional<LeaseCredit> taken;
  if (ring_->credit.try_recv(taken) != ChannelStatus::ok) {
    throw std::logic_error("leat: next() while " + std::to_string(max_leases_) +
                           " leases are held, which is max_leases: release one first");
  }
  Credit credit(*ring_);
  if (stream != nullptr && stream->device() == ring_->device) ring_->stats.asked(*stream);
  if (max_leases_ > 1) ring_->steps.next_asked(latest_);
  if (!in_epoch_) begin(next_epoch_);
  return {std::move(credit), now()};
}

// Waits for the batch that was asked for.
ChannelStatus Consumer::take(std::optional<Lease>& lease, BatchRequest& request, Deadline deadline,
                             const ReceiverState* receiver) {
  for (;;) {
    const std::optional<Staged> received = receive(deadline, receiver);
    if (!received.has_value()) return ChannelStatus::timed_out;
    const Staged& staged = *received;
    const bool is_stale = is_shared_ ? staged.epoch < next_epoch_ : staged.generation < generation_;
    if (is_stale) {
      if (staged.slot != nullptr) ring_->give_back(*staged.slot, DeviceState::kReady);
      continue;
    }
    if (staged.error != nullptr) std::rethrow_exception(staged.error);
    if (staged.epoch > next_epoch_) early_ = staged;  // the other ranks took the rest of this epoch
    if (staged.slot == nullptr || early_.has_value()) {
      in_epoch_ = false;
      ++next_epoch_;
      return ChannelStatus::closed;
    }
    const Duration waited = now() - request.since;
    check(*staged.slot);
    request.credit.pass_on();
    DeviceSlot& slot = *staged.slot;
    const Turn before = std::exchange(latest_, {.slot = &slot, .number = slot.use.turn + 1});
    lease = Lease(ring_, slot, pass_, waited);
    if (receiver != nullptr && max_leases_ > 1) slot.before = before;
    return ChannelStatus::ok;
  }
}

void Consumer::check(DeviceSlot& slot) {
  try {
    if (ring_->checks != nullptr) ring_->checks->before_hand_out(slot);
    std::vector<Failure> none;  // the slot's are in a cache line that is seldom needed
    stages_.failures.charge(slot.attempted, slot.has_failures ? slot.failures : none);
  } catch (...) {
    note_failure();
    stages_.finish(std::current_exception());  // for the other ranks
    ring_->give_back(slot, DeviceState::kReady);
    throw;
  }
}

Receiver<Lease> Consumer::receiver(std::uint64_t epoch, std::optional<gpu::StreamRef> stream) {
  if (stream.has_value() && stream->device() != ring_->device) {
    throw std::invalid_argument("leat: batches on " + ring_->device.name() +
                                " cannot be used on a stream of another device (" +
                                stream->device().name() +
                                "); open a device once, and use that for both");
  }
  end_receiver();
  start(epoch);
  const auto receiver = std::make_shared<ReceiverState>(epoch, std::move(stream));
  // Only fibers of the stages' scheduler send. A fiber of another scheduler that receives before
  // the first send must not be reported as deadlocked.
  receiver->batches.core().get()->expect_only(&scheduler_);
  forwarders_.go(
      [this, receiver] {
        std::exception_ptr cause;
        try {
          forward(*receiver);
        } catch (const Ended&) {
          cause = std::make_exception_ptr(Error("leat: this receiver of epoch " +
                                                std::to_string(receiver->epoch) +
                                                " was ended: its feed has begun another pass"));
        } catch (const Cancelled&) {
          cause = std::make_exception_ptr(Error("leat: the prefetcher was stopped"));
        } catch (...) {
          cause = std::current_exception();
        }
        receiver->ended
            .notify();  // before the close, after which the receiver's caller may call next()
        receiver->batches.try_close(std::move(cause));
      },
      {.name = "forwarder", .stack_size = kStackSize});
  receiver_ = receiver;
  return receiver->batches;
}

// Sends leases until the epoch ends. If an exception unwinds a lease, nobody received it: the lease
// is abandoned.
void Consumer::forward(const ReceiverState& receiver) {
  for (;;) {
    std::optional<LeaseCredit> credit;
    if (ring_->credit.try_recv(credit) != ChannelStatus::ok) {
      select(on_recv(ring_->credit), receiver.on_stop(), on_recv(stopped_, [](std::optional<bool>) {
               throw Error("leat: the prefetcher was stopped");
             }));
    }
    Credit taken(*ring_);
    check_not_failed();
    std::optional<Lease> lease;
    BatchRequest request{std::move(taken), now()};
    if (take(lease, request, Deadline::never(), &receiver) != ChannelStatus::ok) return;
    lease->slot().due = receiver.stream;
    if (receiver.batches.stats().receivers == 0)
      lease->slot().use.waited = Duration::zero();  // nobody waited
    select(on_send(receiver.batches, *std::move(lease)), receiver.on_stop());
  }
}

void Consumer::stop() noexcept { stopped_.try_close(); }

void Consumer::end_receiver() {
  home_.require("a Prefetcher");  // in a child, the receiver's fiber never ends
  if (receiver_ == nullptr) return;
  receiver_->stop.try_close();
  const ExpectWakeFrom waking(scheduler_);
  receiver_->ended.wait();
  receiver_.reset();
}

}  // namespace leat::feeder
