// on_done: an event of a device as a case of select, beside channels and timers.
//
// Example
//   leat::select(leat::gpu::on_done(loss_read, [&] { report(loss.span()); }),
//                leat::on_recv(commands, [&](auto command) { handle(command); }),
//                leat::on_timeout(10s, [&] { report_stall(); }));
//
// The case is ready when the record that was latest at the call of on_done is done. For an event
// that was never recorded it is ready at once. A case that was chosen stays ready. If the device
// has failed, select throws GpuError instead of calling the handler.
//
// Thread- and fiber-safe. Allocates nothing after warm-up.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "leat/csp/select.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

class EventRef;

/// A subscription to an event's latest record, which ends with this object. on_done holds one.
class DoneSubscription {
 public:
  /// Throws std::logic_error under a VirtualClock that the device does not follow (a GPU's time is
  /// real), leat::Error if a thread that is needed cannot be started.
  explicit DoneSubscription(const EventRef& event);
  DoneSubscription(DoneSubscription&& other) noexcept = default;
  DoneSubscription& operator=(DoneSubscription&& other) = delete;
  ~DoneSubscription();

  /// Returns the signal that is notified when the record is done. Not after a move from this
  /// object.
  [[nodiscard]] DoneSignal& signal() const noexcept { return *signal_; }

 private:
  Device device_;
  DoneSignalRef signal_;  // none: moved from
};

/// The handler of an on_done; it owns the subscription.
template <class F>
class DoneHandler {
 public:
  DoneHandler(DoneSubscription subscription, F handler)
      : subscription_(std::move(subscription)), handler_(std::move(handler)) {}
  /// Keeps the case ready and calls the handler; throws GpuError if the device has failed.
  void operator()(std::optional<DoneSignal::Done> /*token*/) {
    const DoneSignal& signal = subscription_.signal();
    signal.keep_ready();
    if (signal.error() != nullptr) std::rethrow_exception(signal.error());
    handler_();
  }

 private:
  DoneSubscription subscription_;
  F handler_;
};

/// A case of select that is ready when the latest record of `event` is done; select then calls
/// handler(). The event may be recorded again, or destroyed, meanwhile. Throws what the constructor
/// of DoneSubscription throws.
template <class F = NoHandler>
[[nodiscard]] auto on_done(const EventRef& event, F handler = {}) {
  DoneSubscription subscription(event);
  Channel<DoneSignal::Done> channel = subscription.signal().channel();
  return on_recv(std::move(channel), DoneHandler<F>(std::move(subscription), std::move(handler)));
}

}  // namespace leat::gpu
