// select: waits for the first of several channel operations that can proceed.
//
// Example
//   leat::select(leat::on_recv(commands, [&](std::optional<Command> c) { handle(c); }),
//                leat::on_send(results, result, [&] { ++sent; }),
//                leat::on_timeout(100ms, [&] { report_stall(); }));
//
// Semantics (Go spec: "Select statements"):
//  - exactly one case takes effect; the others leave no trace. Its handler runs after that, and
//    select returns the index of the case among the arguments;
//  - among cases that are ready, each is chosen with equal probability;
//  - operands are evaluated once, by the caller. on_send borrows an lvalue and owns an rvalue, and
//    moves from it only if its case is chosen;
//  - on_recv's handler gets std::optional<T>: std::nullopt if the channel is closed and drained (a
//    channel closed with a cause rethrows it from select). A chosen send on a closed channel throws
//    ChannelClosed;
//  - otherwise() is chosen only if no other case is ready, decided at one instant for all channels;
//  - on_timeout counts from the call. Nil channels are never ready. The same channel may stand in
//    several cases, in both directions; a select never communicates with itself.
//
// Handlers may be left out. Thread safety and cancellation are those of the channel operations.
// Allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/channel_core.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"

namespace leat {

/// The handler of a case that has none.
struct NoHandler {
  template <class... Args>
  void operator()(Args&&... /*unused*/) const noexcept {}
};

/// A case of select. `kCommunicates` cases describe themselves to the core and act when chosen;
/// the other ones give a deadline.
template <class C>
concept SelectCase = requires(C& c) {
  { C::kCommunicates } -> std::convertible_to<bool>;
};

/// Made by on_recv.
template <Sendable T, class F>
class RecvCase {
 public:
  static constexpr bool kCommunicates = true;
  static constexpr bool kOnce = false;
  RecvCase(std::shared_ptr<ChannelCore> channel, F handler)
      : channel_(std::move(channel)), handler_(std::move(handler)) {}
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = Case::Direction::kRecv;
    one.slot = slot_.address();
  }
  void act(const Case& chosen) {
    std::optional<T> value;
    if (chosen.closed) {
      rethrow_cause(*channel_);
    } else {
      slot_.move_to(value);
    }
    handler_(std::move(value));
  }

 private:
  std::shared_ptr<ChannelCore> channel_;
  F handler_;
  ReceiveSlot<T> slot_;
};

/// Made by on_send. V is T& (borrowed) or T (owned).
template <class V, class F>
class SendCase {
 public:
  static constexpr bool kCommunicates = true;
  static constexpr bool kOnce = !std::is_reference_v<V>;  // its value is gone then
  SendCase(std::shared_ptr<ChannelCore> channel, V value, F handler)
      : channel_(std::move(channel)),
        value_(std::forward<V>(value)),
        handler_(std::move(handler)) {}
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = Case::Direction::kSend;
    one.slot = &value_;
  }
  void act(const Case& chosen) {
    if (chosen.closed) throw_channel_closed(*channel_, "select: send");
    handler_();
  }

 private:
  std::shared_ptr<ChannelCore> channel_;
  V value_;
  F handler_;
};

/// Made by on_timeout and otherwise.
template <class F>
struct DeadlineCase {
  static constexpr bool kCommunicates = false;
  Deadline deadline;
  F handler;
};

/// Receive from `channel` (a Channel or Receiver). handler(std::optional<T>).
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_recv(const Receiver<T>& channel, F handler = {}) {
  return RecvCase<T, F>(channel.core(), std::move(handler));
}
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_recv(const Channel<T>& channel, F handler = {}) {
  return RecvCase<T, F>(channel.core(), std::move(handler));
}

/// Send `value` to `channel` (a Channel or Sender). An lvalue is borrowed and moved from if the
/// case is chosen; a const lvalue is copied; an rvalue is owned. handler().
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_send(const Sender<T>& channel, T& value, F handler = {}) {
  return SendCase<T&, F>(channel.core(), value, std::move(handler));
}
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_send(const Sender<T>& channel, std::type_identity_t<T>&& value,
                           F handler = {}) {
  return SendCase<T, F>(channel.core(), std::move(value), std::move(handler));
}
template <Sendable T, class F = NoHandler>
  requires std::copy_constructible<T>
[[nodiscard]] auto on_send(const Sender<T>& channel, const std::type_identity_t<T>& value,
                           F handler = {}) {
  return SendCase<T, F>(channel.core(), T(value), std::move(handler));
}
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_send(const Channel<T>& channel, T& value, F handler = {}) {
  return SendCase<T&, F>(channel.core(), value, std::move(handler));
}
template <Sendable T, class F = NoHandler>
[[nodiscard]] auto on_send(const Channel<T>& channel, std::type_identity_t<T>&& value,
                           F handler = {}) {
  return SendCase<T, F>(channel.core(), std::move(value), std::move(handler));
}

template <Sendable T, class F = NoHandler>
  requires std::copy_constructible<T>
[[nodiscard]] auto on_send(const Channel<T>& channel, const std::type_identity_t<T>& value,
                           F handler = {}) {
  return SendCase<T, F>(channel.core(), T(value), std::move(handler));
}

/// If nothing else is ready within `length` from the call of select. handler().
template <class F = NoHandler>
[[nodiscard]] auto on_timeout(Duration length, F handler = {}) {
  return DeadlineCase<F>{Deadline::after(now(), length), std::move(handler)};
}

/// If nothing else is ready at once. handler().
template <class F = NoHandler>
[[nodiscard]] auto otherwise(F handler = {}) {
  return DeadlineCase<F>{Deadline::now(), std::move(handler)};
}

/// Waits for one of the cases; runs its handler; returns its index among the arguments. Throws what
/// the handler throws, Cancelled, and as the top of the file says. With no case at all it waits for
/// ever.
template <SelectCase... Cases>
int select(Cases&&... cases) {
  constexpr std::size_t kCount = (std::size_t{0} + ... + std::size_t{Cases::kCommunicates});
  std::array<Case, kCount> communications;
  std::array<int, kCount> position{};  // of each communication among the arguments
  Deadline deadline = Deadline::never();
  int deadline_position = -1;

  std::size_t used = 0;
  int index = 0;
  [[maybe_unused]] const auto collect = [&](auto& one) {
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      one.describe(communications[used]);
      position[used++] = index;
    } else if (deadline_position < 0 || one.deadline.at() < deadline.at()) {
      deadline = one.deadline;
      deadline_position = index;
    }
    ++index;
  };
  (collect(cases), ...);

  const int outcome = communicate(communications, deadline, ParkReason::kSelect);
  const int chosen = outcome < 0 ? deadline_position : position[static_cast<std::size_t>(outcome)];

  index = 0;
  [[maybe_unused]] const auto act = [&](auto& one) {
    if (index++ != chosen) return;
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      one.act(communications[static_cast<std::size_t>(outcome)]);
    } else {
      one.handler();
    }
  };
  (act(cases), ...);
  return chosen;
}

}  // namespace leat
