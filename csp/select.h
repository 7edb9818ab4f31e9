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
//  - operands are evaluated once, by the caller. Channels and values that are lvalues are borrowed,
//    rvalues are owned; a value is moved from only if its case is chosen;
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
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"

namespace leat {

/// The handler of a case that has none.
struct NoHandler {
  template <class... Args>
  void operator()(Args&&... /*unused*/) const noexcept {}
};

/// Channel<T> and Sender<T>.
template <class H>
concept SendingHandle = std::derived_from<H, SendOperations<H, typename H::value_type>>;
/// Channel<T> and Receiver<T>.
template <class H>
concept ReceivingHandle = std::derived_from<H, RecvOperations<H, typename H::value_type>>;

/// A case of select. `kCommunicates` cases describe themselves to the core and act when chosen;
/// the other ones give a deadline.
template <class C>
concept SelectCase = requires(C& c) {
  { C::kCommunicates } -> std::convertible_to<bool>;
};

/// The channel of a case: borrowed from a handle that outlives the select, or owned.
class CaseChannel {
 public:
  explicit CaseChannel(const ChannelHandle& borrowed) noexcept : core_(borrowed.core().get()) {}
  explicit CaseChannel(ChannelHandle&& owned) noexcept
      : core_(owned.core().get()), share_(owned.core()) {}
  [[nodiscard]] ChannelCore* get() const noexcept { return core_; }
  /// As those of ChannelCore; on the nil channel everybody has to wait.
  [[nodiscard]] bool must_wait(Case::Direction direction) const noexcept {
    return core_ == nullptr || core_->must_wait(direction);
  }
  [[nodiscard]] bool knows_caller() const noexcept {
    return core_ == nullptr || core_->knows_caller();
  }
  /// From here it is owned.
  void own() noexcept {
    if (core_ == nullptr || share_.get() != nullptr) return;
    core_->retain();
    share_ = ChannelRef(core_);
  }

 private:
  ChannelCore* core_;
  ChannelRef share_;
};

/// Made by on_recv.
template <Sendable T, class F>
class RecvCase {
 public:
  static constexpr bool kCommunicates = true;
  static constexpr bool kOnce = false;
  RecvCase(CaseChannel channel, F handler)
      : channel_(std::move(channel)), handler_(std::move(handler)) {}
  void own() noexcept { channel_.own(); }
  [[nodiscard]] const CaseChannel& channel() const noexcept { return channel_; }
  [[nodiscard]] bool must_wait() const noexcept {
    return channel_.must_wait(Case::Direction::kRecv);
  }
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = Case::Direction::kRecv;
    value_.reset();
    one.node.slot = &value_;
  }
  /// The only one of its select.
  int communicate_alone(Case& one, Deadline deadline) {
    describe(one);
    if (one.channel == nullptr) return communicate_with_nobody(one, deadline);
    if (one.channel->recv_from_ring(value_)) return 0;
    return one.channel->communicate_one(one, deadline);
  }
  void act(const Case& chosen) {
    if (chosen.closed) rethrow_cause(*chosen.channel);
    // Out of the case: its handler may select with it again.
    std::optional<T> value = std::move(value_);
    value_.reset();
    handler_(std::move(value));
  }

 private:
  CaseChannel channel_;
  F handler_;
  std::optional<T> value_;
};

/// Made by on_send. V is T& (borrowed) or T (owned).
template <class V, class F>
class SendCase {
 public:
  static constexpr bool kCommunicates = true;
  static constexpr bool kOnce = !std::is_reference_v<V>;  // its value is gone then
  SendCase(CaseChannel channel, V value, F handler)
      : channel_(std::move(channel)),
        value_(std::forward<V>(value)),
        handler_(std::move(handler)) {}
  void own() noexcept { channel_.own(); }
  [[nodiscard]] const CaseChannel& channel() const noexcept { return channel_; }
  [[nodiscard]] bool must_wait() const noexcept {
    return channel_.must_wait(Case::Direction::kSend);
  }
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = Case::Direction::kSend;
    one.node.slot = &value_;
  }
  /// The only one of its select.
  int communicate_alone(Case& one, Deadline deadline) {
    describe(one);
    if (one.channel == nullptr) return communicate_with_nobody(one, deadline);
    if (one.channel->send_to_ring(value_)) return 0;
    return one.channel->communicate_one(one, deadline);
  }
  void act(const Case& chosen) {
    if (chosen.closed) throw_channel_closed(*chosen.channel, "select: send");
    handler_();
  }

 private:
  CaseChannel channel_;
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

/// Receive from `channel`, a Channel<T> or Receiver<T>. A handle that is an lvalue is borrowed, a
/// temporary is owned. handler(std::optional<T>).
template <class H, class F = NoHandler>
  requires ReceivingHandle<std::remove_cvref_t<H>>
[[nodiscard]] auto on_recv(H&& channel, F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return RecvCase<T, F>(CaseChannel(std::forward<H>(channel)), std::move(handler));
}

/// Send `value` to `channel`, a Channel<T> or Sender<T>. A handle that is an lvalue is borrowed, a
/// temporary is owned; so is the value: an lvalue is borrowed and moved from if the case is chosen,
/// a const lvalue is copied, an rvalue is owned. handler().
template <class H, class F = NoHandler>
  requires SendingHandle<std::remove_cvref_t<H>>
[[nodiscard]] auto on_send(H&& channel, typename std::remove_cvref_t<H>::value_type& value,
                           F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return SendCase<T&, F>(CaseChannel(std::forward<H>(channel)), value, std::move(handler));
}
template <class H, class F = NoHandler>
  requires SendingHandle<std::remove_cvref_t<H>>
[[nodiscard]] auto on_send(H&& channel, typename std::remove_cvref_t<H>::value_type&& value,
                           F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return SendCase<T, F>(CaseChannel(std::forward<H>(channel)), std::move(value),
                        std::move(handler));
}
template <class H, class F = NoHandler>
  requires SendingHandle<std::remove_cvref_t<H>> &&
      std::copy_constructible<typename std::remove_cvref_t<H>::value_type>
[[nodiscard]] auto on_send(H&& channel, const typename std::remove_cvref_t<H>::value_type& value,
                           F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return SendCase<T, F>(CaseChannel(std::forward<H>(channel)), T(value), std::move(handler));
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

template <SelectCase... Cases>
inline constexpr std::size_t kCommunications =
    (std::size_t{0} + ... + std::size_t{std::remove_cvref_t<Cases>::kCommunicates});

/// Completes the case at that place among the arguments, which communicated.
template <class... Cases>
void act_on(int chosen, const Case& communicated, Cases&... cases) {
  int index = 0;
  [[maybe_unused]] const auto act = [&](auto& one) {
    if (index++ != chosen) return;
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) one.act(communicated);
  };
  (act(cases), ...);
}
/// The same for one that gives a deadline.
template <class... Cases>
void act_on_deadline(int chosen, Cases&... cases) {
  int index = 0;
  [[maybe_unused]] const auto act = [&](auto& one) {
    if (index++ != chosen) return;
    if constexpr (!std::remove_cvref_t<decltype(one)>::kCommunicates) one.handler();
  };
  (act(cases), ...);
}

/// The earliest of the cases that give a deadline, and its place among the arguments.
struct EarliestDeadline {
  Deadline deadline = Deadline::never();
  int position = -1;
};
template <class... Cases>
EarliestDeadline earliest_deadline(const Cases&... cases) noexcept {
  EarliestDeadline earliest;
  int index = 0;
  [[maybe_unused]] const auto look = [&](const auto& one) {
    if constexpr (!std::remove_cvref_t<decltype(one)>::kCommunicates) {
      if (earliest.position < 0 || one.deadline.at() < earliest.deadline.at()) {
        earliest = {one.deadline, index};
      }
    }
    ++index;
  };
  (look(cases), ...);
  return earliest;
}

/// A select with one communication. Returns the place of the case that was chosen.
template <class... Cases>
__attribute__((noinline)) int select_one(Cases&... cases) {
  const EarliestDeadline earliest = earliest_deadline(cases...);
  Case communicated;
  int chosen = -1;
  int index = 0;
  const auto communicate_alone = [&](auto& one) {
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      if (one.communicate_alone(communicated, earliest.deadline) >= 0) chosen = index;
    }
    ++index;
  };
  (communicate_alone(cases), ...);
  if (chosen < 0) {
    act_on_deadline(earliest.position, cases...);
    return earliest.position;
  }
  act_on(chosen, communicated, cases...);
  return chosen;
}

/// A select that has to look at all its channels at one instant, and may have to wait. `polled`:
/// none of them was ready a moment ago.
template <class... Cases>
__attribute__((noinline)) int select_together(bool polled, Cases&... cases) {
  constexpr std::size_t kCount = kCommunications<Cases...>;
  std::array<Case, kCount> communications;
  std::array<int, kCount> position{};  // of each communication among the arguments
  std::size_t used = 0;
  int index = 0;
  [[maybe_unused]] const auto describe = [&](auto& one) {
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      one.describe(communications[used]);
      position[used++] = index;
    }
    ++index;
  };
  (describe(cases), ...);
  const EarliestDeadline earliest = earliest_deadline(cases...);
  const int outcome = polled ? communicate_later(communications, earliest.deadline)
                             : communicate(communications, earliest.deadline);
  if (outcome < 0) {
    act_on_deadline(earliest.position, cases...);
    return earliest.position;
  }
  const auto communicated = static_cast<std::size_t>(outcome);
  act_on(position[communicated], communications[communicated], cases...);
  return position[communicated];
}

/// A select with several communications among at most 64 cases: takes one that is ready, if there
/// is one, before it describes them all.
template <class... Cases>
int select_several(Cases&... cases) {
  std::uint64_t ready = 0;  // by place among the arguments
  std::size_t count = 0;
  bool known = true;
  int index = 0;
  const auto look = [&](const auto& one) {
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      known = known && one.channel().knows_caller();
      if (!one.must_wait()) {
        ready |= std::uint64_t{1} << static_cast<unsigned>(index);
        ++count;
      }
    }
    ++index;
  };
  (look(cases), ...);
  if (!known) return select_together(false, cases...);
  for (; count > 0; --count) {
    std::uint64_t rest = ready;
    for (std::size_t skip = count > 1 ? choose_case(count) : 0; skip > 0; --skip) rest &= rest - 1;
    const int chosen = std::countr_zero(rest);
    Case communicated;
    bool done = false;
    index = 0;
    const auto try_it = [&](auto& one) {
      if (index++ != chosen) return;
      if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
        done = one.communicate_alone(communicated, Deadline::now()) >= 0;
      }
    };
    (try_it(cases), ...);
    if (done) {
      act_on(chosen, communicated, cases...);
      return chosen;
    }
    ready &= ~(std::uint64_t{1} << static_cast<unsigned>(chosen));
  }
  return select_together(true, cases...);
}

/// The case to take where there is no need to look closer: an otherwise beside one communication
/// that has to wait. -1: look closer.
template <class... Cases>
int otherwise_at_once(const Cases&... cases) noexcept {
  int chosen = -1;
  bool must_wait = false;
  int index = 0;
  const auto look = [&](const auto& one) {
    if constexpr (std::remove_cvref_t<decltype(one)>::kCommunicates) {
      must_wait = one.must_wait() && one.channel().knows_caller();
    } else if (chosen < 0 && one.deadline.is_now()) {
      chosen = index;
    }
    ++index;
  };
  (look(cases), ...);
  return must_wait ? chosen : -1;
}

/// Waits for one of the cases; runs its handler; returns its index among the arguments. Throws what
/// the handler throws, Cancelled, and as the top of the file says. With no case at all it waits for
/// ever.
template <SelectCase... Cases>
int select(Cases&&... cases) {
  constexpr std::size_t kCount = kCommunications<Cases...>;
  if constexpr (kCount == 0) {
    return select_together(true, cases...);
  } else if constexpr (sizeof...(Cases) > 64) {
    return select_together(false, cases...);
  } else if constexpr (kCount == 1) {
    if constexpr (sizeof...(Cases) > 1) {
      if (const int chosen = otherwise_at_once(cases...); chosen >= 0) {
        act_on_deadline(chosen, cases...);
        return chosen;
      }
    }
    return select_one(cases...);
  } else {
    return select_several(cases...);
  }
}

}  // namespace leat
