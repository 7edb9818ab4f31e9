// Channels: typed, bounded queues that fibers and threads wait on. Go's channels, in C++.
//
// Example
//   leat::Channel<Batch> batches(2, "batches");
//   leat::go([out = leat::Sender(batches)] {
//     for (Batch& b : read_shards("data/")) out.send(std::move(b));   // waits when 2 are buffered
//     out.close();
//   });
//   for (Batch& b : batches) train_step(b);
//
// Semantics (Go spec: "Channel types", "Send statements", "Receive operator"; Go memory model)
//  - Capacity 0 is a rendezvous: a send completes when a receiver takes the value. A channel of
//    capacity n buffers n values.
//  - Values arrive in the order in which they were sent. Waiting senders, and waiting receivers,
//    are served first come, first served.
//  - After close(), receivers still get the buffered values. Then every receive returns
//    std::nullopt at once or, if the channel was closed with a cause, rethrows the cause.
//  - A default-constructed handle is the nil channel. It is never ready: a send or a receive waits
//    for ever, and a select ignores the case.
//  - Memory order: a send happens before its receive completes. A close happens before a receive
//    that returns because of the close. On capacity C the k-th receive happens before the (k+C)-th
//    send completes.
//
// Thread safety: every operation may be called from any fiber of any scheduler and from any plain
// thread. A fiber parks, and may continue on another thread; a plain thread blocks. Assigning to a
// handle object while another thread uses the same object is a data race; copy the handle instead.
//
// Ownership and lifetime: Channel, Sender and Receiver are handles. Copies name the same channel,
// which lives until its last handle is gone and no operation waits on it. A channel allocates when
// it is constructed (the ring and its control block) and never afterwards. Dropping the last Sender
// does not close the channel.
//
// Errors: a send on a closed channel throws ChannelClosed, also if the close comes while the send
// waits; the value then stays with the caller, unmoved. An operation that waits throws Cancelled on
// a fiber that is asked to stop. Plain threads are never cancelled; closing the channel wakes them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"

namespace leat {

/// The types of values that a channel can carry: move construction and destruction do not throw. A
/// value need not be copyable or default-constructible. Moving or destroying one must not use
/// channels, because it runs under the channel's lock.
template <class T>
concept Sendable = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_destructible_v<T>;

/// How a try or timed operation ended.
enum class ChannelStatus : std::uint8_t {
  ok,           // sent, or received
  would_block,  // the operation would have to wait
  closed,       // the channel is closed (and, for a receive, drained)
  timed_out,    // the deadline passed
};

template <Sendable T>
class Sender;
template <Sendable T>
class Receiver;
template <Sendable T>
class Channel;

/// Throws ChannelClosed for an operation on `core`. The cause of the close, if any, is nested.
[[noreturn]] void throw_channel_closed(const ChannelCore& core, const char* operation);
/// Rethrows the cause that the channel was closed with, if it has one.
void rethrow_cause(const ChannelCore& core);
/// Closes `core`. Throws ChannelClosed if it is closed already, or null (the nil channel).
void close_channel(ChannelCore* core, std::exception_ptr cause);

/// What the untyped core needs to know of T.
template <Sendable T>
inline constexpr ElementType kElementType = {
    sizeof(T), alignof(T),
    [](void* to, void* from) noexcept { ::new (to) T(std::move(*static_cast<T*>(from))); },
    [](void* to, void* from) noexcept {
      static_cast<std::optional<T>*>(to)->emplace(std::move(*static_cast<T*>(from)));
    },
    [](void* object) noexcept { static_cast<T*>(object)->~T(); }};

/// The functions that every handle has. Copying and comparing handles never waits.
class ChannelHandle {
 public:
  /// False for the nil channel.
  explicit operator bool() const noexcept { return pointer() != nullptr; }
  /// True if both handles name the same channel.
  friend bool operator==(const ChannelHandle& a, const ChannelHandle& b) noexcept {
    return a.core_ == b.core_;
  }
  /// Returns how many values are buffered (0 for nil). The number may already be out of date.
  [[nodiscard]] std::size_t size() const noexcept {
    return pointer() != nullptr ? pointer()->size() : 0;
  }
  /// Returns how many values the channel can buffer (0 for nil).
  [[nodiscard]] std::size_t capacity() const noexcept {
    return pointer() != nullptr ? pointer()->capacity() : 0;
  }
  /// Returns the counters of the channel; all zero for nil.
  [[nodiscard]] ChannelStats stats() const noexcept {
    return pointer() != nullptr ? pointer()->stats() : ChannelStats{};
  }
  /// Returns the name given at construction; empty for nil. Valid while the channel lives.
  [[nodiscard]] std::string_view name() const noexcept {
    return pointer() != nullptr ? std::string_view(pointer()->name()) : std::string_view();
  }
  /// Returns the untyped channel, for select's cases.
  [[nodiscard]] const ChannelRef& core() const noexcept { return core_; }

 protected:
  ChannelHandle() = default;
  explicit ChannelHandle(ChannelRef core) noexcept : core_(std::move(core)) {}

 private:
  [[nodiscard]] ChannelCore* pointer() const noexcept { return core_.get(); }

  ChannelRef core_;
};

/// The operations of a handle that may send. Thread-safe.
template <class Handle, Sendable T>
class SendOperations {
 public:
  /// Waits until the value is buffered or a receiver takes it. Throws ChannelClosed or Cancelled;
  /// `value` is then unmoved.
  void send(T&& value) const {
    ChannelCore* const core = pointer();
    LockedChannel locked;  // of the nil channel
    if (core != nullptr) {
      locked = core->template send_to_ring<T>(std::move(value));
      if (!locked) return;
    }
    send_slowly(locked, value);
  }
  /// Sends a copy of `value`. Waits and throws as the overload above.
  void send(const T& value) const requires std::copy_constructible<T> {
    if constexpr (std::is_trivially_copyable_v<T>) {  // straight to its place: one copy, not two
      if (ChannelCore* const core = pointer(); core != nullptr) {
        const LockedChannel locked = core->template send_to_ring<T>(value);
        if (!locked) return;
        T copy(value);
        send_slowly(locked, copy);
        return;
      }
    }
    send(T(value));
  }
  /// Sends if that is possible at once: returns ok, would_block or closed. Moves from `value` only
  /// if it returns ok. Never waits. If the channel is full, the call happens before the receive
  /// that makes room. So a channel of capacity 1 is a bell: the receiver sees what each sender
  /// wrote before its try_send(), even if that try_send() found no room.
  [[nodiscard]] ChannelStatus try_send(T&& value) const {
    const ChannelStatus status = transfer(value, Deadline::now());
    return status == ChannelStatus::timed_out ? ChannelStatus::would_block : status;
  }
  /// Waits at most until `deadline` (of the scheduler's clock), such as leat::from_now(1s): returns
  /// ok, closed or timed_out. Moves from `value` only if it returns ok. Throws Cancelled.
  [[nodiscard]] ChannelStatus send_until(T&& value, TimePoint deadline) const {
    return transfer(value, Deadline(deadline));
  }
  /// Closes the channel and wakes all operations that wait on it. Receivers still get the buffered
  /// values; then they rethrow `cause`, if there is one. Throws ChannelClosed if the channel is
  /// closed already, or nil.
  void close(std::exception_ptr cause = nullptr) const { close_channel(pointer(), cause); }
  /// As close(), for error paths: returns false, without effect, if the channel is closed or nil.
  bool try_close(std::exception_ptr cause = nullptr) const noexcept {
    return pointer() != nullptr && pointer()->close(std::move(cause));
  }

 private:
  [[nodiscard]] ChannelCore* pointer() const noexcept {
    return static_cast<const Handle*>(this)->core().get();
  }
  static void send_slowly(LockedChannel locked, T& value) {
    Case one(locked.channel(), Case::Direction::kSend, &value);
    locked.send_or_recv(one, Deadline::never());
    // Through `one`, which owns the channel if the send has waited: the handle may be gone.
    if (one.closed) throw_channel_closed(*one.channel, "send");
  }
  ChannelStatus transfer(T& value, Deadline deadline) const {
    ChannelCore* const core = pointer();
    LockedChannel locked;  // of the nil channel
    if (core != nullptr) {
      locked = core->template send_to_ring<T>(std::move(value));
      if (!locked) return ChannelStatus::ok;
    }
    // NOLINTNEXTLINE(bugprone-use-after-move): a failed send_to_ring() has not moved from it
    Case one(core, Case::Direction::kSend, &value);
    if (locked.send_or_recv(one, deadline) < 0) return ChannelStatus::timed_out;
    return one.closed ? ChannelStatus::closed : ChannelStatus::ok;
  }
};

/// The operations of a handle that may receive. Thread-safe.
template <class Handle, Sendable T>
class RecvOperations {
 public:
  class Iterator;

  /// Waits for a value. Returns std::nullopt once the channel is closed and drained. Throws
  /// Cancelled, and the cause that the channel was closed with.
  std::optional<T> recv() const {
    std::optional<T> value;
    static_cast<void>(transfer(value, Deadline::never()));
    return value;
  }
  /// Receives into `value` if that is possible at once: returns ok, would_block or closed. `value`
  /// is empty unless it returns ok. Never waits. Throws the cause that the channel was closed with.
  /// On an empty channel it takes no lock and orders no memory.
  [[nodiscard]] ChannelStatus try_recv(std::optional<T>& value) const {
    const ChannelCore* const core = static_cast<const Handle*>(this)->core().get();
    if (core != nullptr && core->has_caller() && core->would_block(Case::Direction::kRecv)) {
      value.reset();
      return ChannelStatus::would_block;
    }
    const ChannelStatus status = transfer(value, Deadline::now());
    return status == ChannelStatus::timed_out ? ChannelStatus::would_block : status;
  }
  /// Waits at most until `deadline` (of the scheduler's clock): returns ok, closed or timed_out.
  /// `value` is empty unless it returns ok. Throws Cancelled, and the cause that the channel was
  /// closed with.
  [[nodiscard]] ChannelStatus recv_until(std::optional<T>& value, TimePoint deadline) const {
    return transfer(value, Deadline(deadline));
  }

  /// `for (T& value : receiver)`: receives until the channel is closed and drained. The value is
  /// destroyed before the next one is received.
  [[nodiscard]] Iterator begin() const {
    return Iterator(static_cast<const Handle*>(this)->core());
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  ChannelStatus transfer(std::optional<T>& value, Deadline deadline) const {
    return receive(static_cast<const Handle*>(this)->core().get(), value, deadline);
  }
  static ChannelStatus receive(ChannelCore* core, std::optional<T>& value, Deadline deadline) {
    value.reset();
    LockedChannel locked;  // of the nil channel
    if (core != nullptr) {
      locked = core->recv_from_ring(value);
      if (!locked) return ChannelStatus::ok;
    }
    return receive_slowly(locked, value, deadline);
  }
  static ChannelStatus receive_slowly(LockedChannel locked, std::optional<T>& value,
                                      Deadline deadline) {
    Case one(locked.channel(), Case::Direction::kRecv, &value);
    if (locked.send_or_recv(one, deadline) < 0) return ChannelStatus::timed_out;
    if (!one.closed) return ChannelStatus::ok;
    rethrow_cause(*one.channel);
    return ChannelStatus::closed;
  }
};

template <class Handle, Sendable T>
class RecvOperations<Handle, T>::Iterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(ChannelRef core) : core_(std::move(core)) { ++*this; }

  T& operator*() noexcept { return *value_; }
  T* operator->() noexcept { return &*value_; }
  Iterator& operator++() {
    static_cast<void>(receive(core_.get(), value_, Deadline::never()));
    return *this;
  }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) noexcept {
    return !it.value_.has_value();
  }

 private:
  ChannelRef core_;
  std::optional<T> value_;
};

/// A handle that may send, receive and close.
template <Sendable T>
class Channel : public ChannelHandle,
                public SendOperations<Channel<T>, T>,
                public RecvOperations<Channel<T>, T> {
 public:
  using value_type = T;

  /// The nil channel.
  Channel() = default;
  /// Makes a channel that buffers `capacity` values; 0 is a rendezvous. `name` appears in reports.
  /// Throws std::invalid_argument if `capacity` is negative or its bytes overflow.
  explicit Channel(std::int64_t capacity, std::string_view name = {})
      : ChannelHandle(ChannelRef(new ChannelCore(capacity, kElementType<T>, std::string(name)))) {}
};

/// A handle that may only send (and close).
template <Sendable T>
class Sender : public ChannelHandle, public SendOperations<Sender<T>, T> {
 public:
  using value_type = T;

  Sender() = default;
  /// A handle that sends to `channel`.
  Sender(const Channel<T>& channel)  // NOLINT(google-explicit-constructor): a view, as in Go
      : ChannelHandle(channel.core()) {}
};

/// A handle that may only receive.
template <Sendable T>
class Receiver : public ChannelHandle, public RecvOperations<Receiver<T>, T> {
 public:
  using value_type = T;

  Receiver() = default;
  /// A handle that receives from `channel`.
  Receiver(const Channel<T>& channel)  // NOLINT(google-explicit-constructor): a view, as in Go
      : ChannelHandle(channel.core()) {}
  /// For the runtime: makes a handle of the untyped channel `core`, which carries values of T.
  explicit Receiver(ChannelRef core) noexcept : ChannelHandle(std::move(core)) {}
};

}  // namespace leat
