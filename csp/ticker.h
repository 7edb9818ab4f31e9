// Times that arrive through channels: after and tick.
//
// Example
//   const leat::Ticker report = leat::tick(1s);
//   const leat::Receiver<leat::TimePoint> deadline = leat::after(30s);
//   for (bool late = false; !late;) {
//     leat::select(leat::on_recv(report.ticks(), [&](auto) { print(progress); }),
//                  leat::on_recv(deadline, [&](auto) { late = true; }),
//                  leat::on_recv(done, ...));
//   }
//
// Modelled on Go's time.After and time.Ticker. To give up a single operation, send_until,
// recv_until and on_timeout are cheaper: they allocate nothing.
#pragma once

#include <memory>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"

namespace leat {

class Alarm;

/// A channel of capacity 1 that receives the time, once, `length` from now, by the clock of the
/// calling fiber's scheduler. It is never closed. Allocates. Throws std::logic_error outside a
/// fiber.
///
/// Until then it counts as a timer: virtual time advances to it, and no deadlock is reported.
[[nodiscard]] Receiver<TimePoint> after(Duration length);

/// Sends the time every `period`, until it is stopped or destroyed. Move-only; thread-safe but for
/// moving and destruction. May outlive its scheduler.
class Ticker {
 public:
  Ticker(Ticker&& other) noexcept;
  Ticker& operator=(Ticker&& other) noexcept;
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker();

  /// Of capacity 1: a tick that finds the one before it not yet received is dropped. Never closed.
  [[nodiscard]] const Receiver<TimePoint>& ticks() const noexcept { return ticks_; }
  /// No more ticks. One that has been sent can still be received. Idempotent.
  void stop() noexcept;

 private:
  friend Ticker tick(Duration period);
  explicit Ticker(std::shared_ptr<Alarm> alarm);

  std::shared_ptr<Alarm> alarm_;
  Receiver<TimePoint> ticks_;
};

/// A ticker by the clock of the calling fiber's scheduler; the first tick comes after one period.
/// Ticks keep to multiples of it: one that comes late does not delay the next. Throws
/// std::invalid_argument unless `period` is positive, std::logic_error outside a fiber.
///
/// While its last tick has not been received, a ticker wakes nobody: that alone does not let
/// virtual time advance, nor keep a deadlock from being reported.
[[nodiscard]] Ticker tick(Duration period);

}  // namespace leat
