// select: waits for the first of several channel operations that can proceed.
//
// Example
//   leat::select(leat::on_recv(commands, [&](std::optional<Command> c) { handle(c); }),
//                leat::on_send(results, result, [&] { ++sent; }),
//                leat::on_timeout(100ms, [&] { report_stall(); }));
//
// Semantics (Go spec: "Select statements")
//  - Exactly one case takes effect; the others leave no trace. Then the handler of that case runs,
//    and select() returns the index of the case among the arguments.
//  - Among the cases that are ready, each is chosen with equal probability.
//  - Operands are evaluated once, by the caller. on_send(c, x) copies x. on_send(c, std::move(x))
//    moves from x, and only if its case is chosen.
//  - The handler of on_recv gets a std::optional<T>: std::nullopt from a closed, drained channel.
//  - otherwise() is chosen only if no other case is ready, on all channels at one instant.
//  - The time of on_timeout() begins with the call of on_timeout().
//  - Nil channels are never ready. The same channel may stand in several cases, in both directions;
//    a select never communicates with itself.
//  - A handler may be left out.
//
// Thread safety: select() may be called from any fiber and from any plain thread, as the operations
// of channel.h. A case is used by one fiber or thread at a time.
//
// Ownership and lifetime: a case borrows a handle that is an lvalue, and a value that is an rvalue;
// both must outlive the select. It owns a handle that is a temporary, and the copy of a value.
// select() allocates nothing, except where a descriptor must be waited for (csp/io.h).
//
// Errors: throws what the handler throws, and Cancelled on a fiber that is asked to stop. A chosen
// send on a closed channel throws ChannelClosed. A chosen receive rethrows the cause that the
// channel was closed with.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "leat/csp/base/thread_annotations.h"
#include "leat/csp/channel.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/channel/select_cases.h"
#include "leat/csp/clock.h"

namespace leat {

/// The handler of a case that has none.
struct NoHandler {
  template <class... Args>
  void operator()(Args&&... /*unused*/) const noexcept {}
};

/// A handle that may send: Channel<T> or Sender<T>.
template <class H>
concept SendingHandle = std::derived_from<H, SendOperations<H, typename H::value_type>>;
/// A handle that may receive: Channel<T> or Receiver<T>.
template <class H>
concept ReceivingHandle = std::derived_from<H, RecvOperations<H, typename H::value_type>>;

/// A case of select: an operation on a channel (kIsChannelCase), or a deadline.
template <class C>
concept SelectCase = requires(C& c) {
  { C::kIsChannelCase } -> std::convertible_to<bool>;
};

/// The channel of a case: borrowed from a handle that outlives the select, or owned.
class CaseChannel {
 public:
  explicit CaseChannel(const ChannelHandle& borrowed) noexcept : core_(borrowed.core().get()) {}
  explicit CaseChannel(ChannelHandle&& owned) noexcept
      : core_(owned.core().get()), share_(owned.core()) {}
  [[nodiscard]] ChannelCore* get() const noexcept { return core_; }
  /// The functions of ChannelCore. An operation on the nil channel always blocks.
  [[nodiscard]] bool would_block(Case::Direction direction) const noexcept {
    return core_ == nullptr || core_->would_block(direction);
  }
  [[nodiscard]] bool has_caller() const noexcept { return core_ == nullptr || core_->has_caller(); }
  /// Owns the channel from here on.
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
  static constexpr bool kIsChannelCase = true;
  static constexpr bool kOnce = false;
  static constexpr Case::Direction kDirection = Case::Direction::kRecv;
  RecvCase(CaseChannel channel, F handler)
      : channel_(std::move(channel)), handler_(std::move(handler)) {}
  /// This case, which owns its channel from here on.
  RecvCase owned() && {
    channel_.own();
    return std::move(*this);
  }
  [[nodiscard]] const CaseChannel& channel() const noexcept { return channel_; }
  [[nodiscard]] bool would_block() const noexcept { return channel_.would_block(kDirection); }
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = kDirection;
    value_.reset();
    one.node.slot = &value_;
  }
  /// Performs this case, without regard to the others of its select: waits until `deadline`.
  int try_or_wait(Case& one, Deadline deadline) {
    describe(one);
    LockedChannel locked;  // of the nil channel
    if (one.channel != nullptr) {
      locked = one.channel->recv_from_ring(value_);
      if (!locked) return 0;
    }
    return locked.send_or_recv(one, deadline);
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

/// Made by on_send. V is T& (borrowed, to be moved from) or T (owned).
template <class V, class F>
class SendCase {
 public:
  static constexpr bool kIsChannelCase = true;
  static constexpr bool kOnce = true;  // its value is gone once it was chosen
  static constexpr Case::Direction kDirection = Case::Direction::kSend;
  SendCase(CaseChannel channel, V value, F handler)
      : channel_(std::move(channel)),
        value_(std::forward<V>(value)),
        handler_(std::move(handler)) {}
  /// As this case, with a channel and a value of its own. Moves from the value that is borrowed.
  SendCase<std::remove_reference_t<V>, F> owned() && {
    channel_.own();
    return {std::move(channel_), std::move(value_), std::move(handler_)};
  }
  [[nodiscard]] const CaseChannel& channel() const noexcept { return channel_; }
  [[nodiscard]] bool would_block() const noexcept { return channel_.would_block(kDirection); }
  void describe(Case& one) noexcept {
    one.channel = channel_.get();
    one.direction = kDirection;
    one.node.slot = &value_;
  }
  /// Performs this case, without regard to the others of its select: waits until `deadline`.
  int try_or_wait(Case& one, Deadline deadline) {
    describe(one);
    LockedChannel locked;  // of the nil channel
    if (one.channel != nullptr) {
      locked = one.channel->template send_to_ring<std::remove_reference_t<V>>(std::move(value_));
      if (!locked) return 0;
    }
    return locked.send_or_recv(one, deadline);
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
  static constexpr bool kIsChannelCase = false;
  Deadline deadline;
  F handler;
};

/// A case that receives from `channel`, a Channel<T> or Receiver<T>, and then calls
/// handler(std::optional<T>). Borrows a handle that is an lvalue; owns a temporary.
template <class H, class F = NoHandler>
  requires ReceivingHandle<std::remove_cvref_t<H>>
[[nodiscard]] auto on_recv(H&& channel, F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return RecvCase<T, F>(CaseChannel(std::forward<H>(channel)), std::move(handler));
}

/// A type whose rvalues a case borrows. Values of any other type are copied: moving is copying.
template <class T>
concept BorrowedByCase = !(std::is_trivially_copyable_v<T> && std::copy_constructible<T>);

/// A case that sends `value` to `channel`, a Channel<T> or Sender<T>, and then calls handler().
/// Borrows a handle that is an lvalue; owns a temporary.
///
/// | value  | the case has | if the case is chosen | otherwise                    |
/// |--------|--------------|-----------------------|------------------------------|
/// | lvalue | a copy       | sends the copy        | drops the copy               |
/// | rvalue | a reference  | moves from the value  | leaves the value as it was   |
///
/// Write `std::move(x)` if T cannot be copied, or should not be. An rvalue must outlive the case.
/// So do not keep a case that was made from a temporary, except in a Selector, which takes the
/// value. (A case always copies a trivially copyable T.)
template <class H, class F = NoHandler>
  requires SendingHandle<std::remove_cvref_t<H>> &&
      std::copy_constructible<typename std::remove_cvref_t<H>::value_type>
[[nodiscard]] auto on_send(H&& channel, const typename std::remove_cvref_t<H>::value_type& value,
                           F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  return SendCase<T, F>(CaseChannel(std::forward<H>(channel)), T(value), std::move(handler));
}
template <class H, class F = NoHandler>
  requires SendingHandle<std::remove_cvref_t<H>> &&
      BorrowedByCase<typename std::remove_cvref_t<H>::value_type>
[[nodiscard]] auto on_send(H&& channel,
                           typename std::remove_cvref_t<H>::value_type&& value LEAT_LIFETIME_BOUND,
                           F handler = {}) {
  using T = typename std::remove_cvref_t<H>::value_type;
  // NOLINTNEXTLINE(cppcoreguidelines-rvalue-reference-param-not-moved): moved from when chosen
  return SendCase<T&, F>(CaseChannel(std::forward<H>(channel)), value, std::move(handler));
}

/// A case that is chosen, and calls handler(), if no other case is ready within `length` from the
/// call of on_timeout().
template <class F = NoHandler>
[[nodiscard]] auto on_timeout(Duration length, F handler = {}) {
  return DeadlineCase<F>{Deadline::after(now(), length), std::move(handler)};
}

/// A case that is chosen, and calls handler(), if no other case is ready at once.
template <class F = NoHandler>
[[nodiscard]] auto otherwise(F handler = {}) {
  return DeadlineCase<F>{Deadline::now(), std::move(handler)};
}

/// Waits until one of the cases can proceed, performs it, runs its handler, and returns its index
/// among the arguments. Errors: see the top of this file. Without any case it waits for ever.
template <SelectCase... Cases>
int select(Cases&&... cases) {
  constexpr std::size_t kCount = kChannelCases<Cases...>;
  if constexpr ((LooksAgain<Cases> || ...)) {
    begin_select(earliest_deadline(cases...).deadline, cases...);
  }
  if constexpr (kCount == 0) {
    return select_together(true, cases...);
  } else if constexpr (sizeof...(Cases) > 64) {
    return select_together(false, cases...);
  } else if constexpr (kCount == 1) {
    if constexpr (sizeof...(Cases) > 1) {
      const int place = otherwise_at_once(cases...);
      if (place >= 0) return act_on_deadline(place, cases...);
    }
    return select_one(cases...);
  } else {
    return select_several(cases...);
  }
}

}  // namespace leat
