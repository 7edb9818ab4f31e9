// Times that arrive through channels: after() once, tick() periodically.
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
// Modelled on Go's time.After and time.Ticker. To limit a single operation, send_until, recv_until
// and on_timeout cost less: they allocate nothing.
//
// Thread and fiber safety: call after() and tick() on a fiber. Any fiber or thread may receive the
// times. A Ticker is thread-safe, except for its move operations and destructor.
//
// Lifetime: a Ticker stops when it is destroyed. A timer of after() ends with the last Receiver of
// its channel. A Ticker and a Receiver may outlive their scheduler.
//
// Errors: std::logic_error outside a fiber, std::invalid_argument unless a period is positive.
#pragma once

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"

namespace leat {

/// Returns a channel of capacity 1 to which the scheduler sends the time, once, `length` from now
/// on the scheduler's clock. The channel is never closed. Allocates. Throws std::logic_error
/// outside a fiber.
///
/// Until the time is sent, after() counts as a timer: virtual time advances to it, and no deadlock
/// is reported. The timer is removed, and its memory freed, as soon as nobody can receive the time:
/// no Receiver of the channel is left, and no operation waits on it. So a loop may call after() in
/// each turn: virtual time does not advance to a timer that nobody waits for.
[[nodiscard]] Receiver<TimePoint> after(Duration length);

/// Sends the time periodically, until it is stopped or destroyed. Made by tick(). Move-only.
class Ticker {
 public:
  /// Takes over the ticks of `other`.
  Ticker(Ticker&& other) noexcept;
  /// Stops, then takes over the ticks of `other`.
  Ticker& operator=(Ticker&& other) noexcept;
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  /// Stops.
  ~Ticker();

  /// Returns the channel of the times. Capacity 1: a tick is dropped while the one before it has
  /// not been received. Never closed.
  [[nodiscard]] const Receiver<TimePoint>& ticks() const noexcept { return ticks_; }
  /// Ends the ticks. A tick that was sent can still be received. A second call has no effect.
  void stop() noexcept;

 private:
  friend Ticker tick(Duration period);
  explicit Ticker(Receiver<TimePoint> ticks) noexcept;

  Receiver<TimePoint> ticks_;
};

/// Starts a ticker on the clock of the calling fiber's scheduler. The first tick comes after one
/// period. Ticks keep to multiples of the period: a late tick does not delay the next one. Throws
/// std::invalid_argument unless `period` is positive, std::logic_error outside a fiber.
///
/// While its last tick has not been received, a ticker can wake no fiber. It then neither lets
/// virtual time advance nor keeps a deadlock from being reported.
[[nodiscard]] Ticker tick(Duration period);

}  // namespace leat
