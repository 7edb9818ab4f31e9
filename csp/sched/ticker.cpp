#include "leat/csp/ticker.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/sched/alarm.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/scheduler.h"

namespace leat {

Alarm::Alarm(std::shared_ptr<SchedulerCore> core, TimePoint at, Duration period)
    : core_(std::move(core)),
      period_(period),
      times_(1, period == Duration::zero() ? "after" : "tick") {
  timer_.at = at;
  timer_.alarm = this;
}

void Alarm::start() { core_->start_alarm(*this); }

void Alarm::stop() noexcept { core_->stop_alarm(*this); }

void Alarm::ring(TimePoint at) const noexcept {
  static_cast<void>(times_.try_send(TimePoint(at)));  // full: dropped
}

Receiver<TimePoint> after(Duration length) {
  SchedulerCore& core = current_scheduler("after");
  const auto alarm = std::make_shared<Alarm>(
      core.shared_from_this(), Deadline::after(core.clock().now(), length).at(), Duration::zero());
  alarm->start();
  return alarm->times();
}

Ticker tick(Duration period) {
  if (period <= Duration::zero()) {
    throw std::invalid_argument("leat: tick: a period of " + std::to_string(period.count()) +
                                " ns; it must be positive");
  }
  SchedulerCore& core = current_scheduler("tick");
  auto alarm = std::make_shared<Alarm>(core.shared_from_this(),
                                       Deadline::after(core.clock().now(), period).at(), period);
  alarm->start();
  return Ticker(std::move(alarm));
}

Ticker::Ticker(std::shared_ptr<Alarm> alarm) : alarm_(std::move(alarm)), ticks_(alarm_->times()) {}

Ticker::Ticker(Ticker&& other) noexcept = default;

Ticker::~Ticker() { stop(); }

Ticker& Ticker::operator=(Ticker&& other) noexcept {
  if (this == &other) return *this;
  stop();
  alarm_ = std::move(other.alarm_);
  ticks_ = std::move(other.ticks_);
  return *this;
}

void Ticker::stop() noexcept {
  if (alarm_ != nullptr) alarm_->stop();
}

}  // namespace leat
