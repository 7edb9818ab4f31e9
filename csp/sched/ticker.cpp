#include "leat/csp/ticker.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/sched/alarm.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/scheduler.h"

namespace leat {

namespace {

constexpr ElementType freed_by(void (*free)(ChannelCore*) noexcept) {
  ElementType element = kElementType<TimePoint>;
  element.free = free;
  return element;
}

Receiver<TimePoint> start_alarm(SchedulerCore& core, Duration length, Duration period) {
  const TimePoint at = Deadline::after(core.clock().now(), length).at();
  auto* const alarm = new Alarm(core.shared_from_this(), at, period);
  Receiver<TimePoint> times{ChannelRef(alarm)};
  alarm->start();
  return times;
}

}  // namespace

constinit const ElementType Alarm::kElement = freed_by(&Alarm::end);

Alarm::Alarm(std::shared_ptr<SchedulerCore> core, TimePoint at, Duration period)
    : ChannelCore(1, kElement, period == Duration::zero() ? "after" : "tick"),
      core_(std::move(core)),
      period_(period) {
  timer_.at = at;
  timer_.alarm = this;
}

void Alarm::start() { core_->start_alarm(*this); }

void Alarm::stop() noexcept { core_->stop_alarm(*this); }

void Alarm::ring(TimePoint at) noexcept {
  send_without_reference(&at);  // full: dropped
  drop();
}

// The last handle is gone, and no operation waits.
void Alarm::end(ChannelCore* channel) noexcept {
  auto* const alarm = static_cast<Alarm*>(channel);
  alarm->stop();  // from here on, no worker begins to ring it
  alarm->drop();
}

void Alarm::drop() noexcept {
  // acq_rel: the last one sees what the other has done with the alarm.
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Receiver<TimePoint> after(Duration length) {
  return start_alarm(current_scheduler("after"), length, Duration::zero());
}

Ticker tick(Duration period) {
  if (period <= Duration::zero()) {
    throw std::invalid_argument("leat: tick: a period of " + std::to_string(period.count()) +
                                " ns; it must be positive");
  }
  return Ticker(start_alarm(current_scheduler("tick"), period, period));
}

Ticker::Ticker(Receiver<TimePoint> ticks) noexcept : ticks_(std::move(ticks)) {}

Ticker::Ticker(Ticker&& other) noexcept = default;

Ticker::~Ticker() { stop(); }

Ticker& Ticker::operator=(Ticker&& other) noexcept {
  if (this == &other) return *this;
  stop();
  ticks_ = std::move(other.ticks_);
  return *this;
}

void Ticker::stop() noexcept {
  if (ticks_) static_cast<Alarm*>(ticks_.core().get())->stop();
}

}  // namespace leat
