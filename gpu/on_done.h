// on_done: an event of a device as a case of select, beside channels and timers.
//
// Example
//   leat::select(leat::gpu::on_done(loss_read, [&] { report(loss.span()); }),
//                leat::on_recv(commands, [&](auto command) { handle(command); }),
//                leat::on_timeout(10s, [&] { report_stall(); }));
//
// It is about the latest record at the call of on_done, and ready from the moment at which that is
// done: at once for an event that was never recorded. Chosen, it stays ready (a Selector chooses it
// again). If the device has failed, select throws GpuError in place of calling the handler.
//
// Allocates nothing after warm-up. From any fiber or plain thread.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "leat/csp/select.h"
#include "leat/gpu/event.h"

namespace leat::gpu {

/// Told when an event's latest record is done, until it is destroyed. What on_done holds.
class DoneSubscription {
 public:
  /// Throws std::logic_error on a VirtualClock whose time the device does not take (a GPU's is
  /// real), leat::Error where a thread that it needs cannot be started.
  explicit DoneSubscription(const EventRef& event);
  DoneSubscription(DoneSubscription&& other) noexcept = default;
  DoneSubscription& operator=(DoneSubscription&& other) = delete;
  ~DoneSubscription();

  /// What is reached when the record is done; of one that was not moved from.
  [[nodiscard]] DoneSignal& signal() const noexcept { return *signal_; }

 private:
  Device device_;
  DoneSignalRef signal_;  // none: moved from
};

/// The handler of an on_done, which keeps its subscription.
template <class F>
class DoneHandler {
 public:
  DoneHandler(DoneSubscription subscription, F handler)
      : subscription_(std::move(subscription)), handler_(std::move(handler)) {}
  /// Puts the token back, so that the case stays ready. Throws what the device failed with instead
  /// of calling the handler.
  void operator()(std::optional<DoneSignal::Done> /*token*/) {
    const DoneSignal& signal = subscription_.signal();
    signal.put_token();
    if (signal.error() != nullptr) std::rethrow_exception(signal.error());
    handler_();
  }

 private:
  DoneSubscription subscription_;
  F handler_;
};

/// A case of select that is ready when the latest record of `event` is done. handler(). Throws as
/// DoneSubscription. The event may be recorded again, or destroyed, meanwhile.
template <class F = NoHandler>
[[nodiscard]] auto on_done(const EventRef& event, F handler = {}) {
  DoneSubscription subscription(event);
  Channel<DoneSignal::Done> channel = subscription.signal().channel();
  return on_recv(std::move(channel), DoneHandler<F>(std::move(subscription), std::move(handler)));
}

}  // namespace leat::gpu
