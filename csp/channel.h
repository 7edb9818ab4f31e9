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
// A Channel is a handle; copies name the same channel, and the last one frees it. Sender and
// Receiver are handles with one direction. A default-constructed handle is the nil channel: never
// ready, so sending to it and receiving from it wait for ever; in a select it is as if absent.
//
// Semantics (Go spec: "Channel types", "Send statements", "Receive operator"; Go memory model):
//  - capacity 0 is a rendezvous: a send completes when the value is taken. Capacity n buffers n;
//  - values arrive in the order sent; waiting senders, and waiting receivers, are served first
//    come, first served;
//  - after close, what was buffered is still received, then every receive returns std::nullopt at
//    once. Closed with a cause, receives rethrow the cause instead of returning std::nullopt;
//  - a send on a closed channel throws ChannelClosed, also if the close comes while it waits, and
//    the value is still the caller's, unmoved;
//  - a send happens before its receive completes; a close happens before a receive that returns
//    because of it; on capacity C the k-th receive happens before the (k+C)-th send completes.
//
// Thread safety: every operation may be called from any fiber of any scheduler and from any plain
// thread. A fiber parks (and may continue on another thread); a thread blocks. Waiting throws
// Cancelled on a fiber that is asked to stop; threads are never cancelled: close wakes them. A
// single handle object must not be assigned to while another thread uses that same object.
//
// Memory: a channel allocates on construction (the ring and its control block), never afterwards.
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

/// What can travel through a channel: movable without throwing. Need not be copyable or
/// default-constructible. Its move must not use channels itself (it runs under the channel's lock).
template <class T>
concept Sendable = std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
    std::is_nothrow_destructible_v<T>;

/// How a try or timed operation ended.
enum class ChannelStatus : std::uint8_t {
  ok,           // sent, or received
  would_block,  // a try that would have had to wait
  closed,       // the channel is closed (and, for a receive, drained)
  timed_out,    // the deadline passed
};

template <Sendable T>
class Sender;
template <Sendable T>
class Receiver;
template <Sendable T>
class Channel;

/// Throws ChannelClosed for an operation on `core`, with the channel's cause nested, if it has one.
[[noreturn]] void throw_channel_closed(const ChannelCore& core, const char* operation);
/// Rethrows the cause that the channel was closed with, if it has one.
void rethrow_cause(const ChannelCore& core);
/// Closes; throws ChannelClosed where that is impossible: closed already, or nil (null).
void close_channel(ChannelCore* core, std::exception_ptr cause);

/// What the core needs to know of T.
template <Sendable T>
inline constexpr ElementType kElementType = {
    sizeof(T), alignof(T),
    [](void* to, void* from) noexcept { ::new (to) T(std::move(*static_cast<T*>(from))); },
    [](void* to, void* from) noexcept {
      static_cast<std::optional<T>*>(to)->emplace(std::move(*static_cast<T*>(from)));
    },
    [](void* object) noexcept { static_cast<T*>(object)->~T(); }};

/// What every handle has. Copying and comparing handles never waits.
class ChannelHandle {
 public:
  /// False for the nil channel.
  explicit operator bool() const noexcept { return pointer() != nullptr; }
  /// Whether both name the same channel.
  friend bool operator==(const ChannelHandle& a, const ChannelHandle& b) noexcept {
    return a.core_ == b.core_;
  }
  /// Values buffered now (0 for nil). Out of date as soon as it is read, if others operate on it.
  [[nodiscard]] std::size_t size() const noexcept {
    return pointer() != nullptr ? pointer()->size() : 0;
  }
  /// Values it can buffer (0 for nil).
  [[nodiscard]] std::size_t capacity() const noexcept {
    return pointer() != nullptr ? pointer()->capacity() : 0;
  }
  /// What it has been doing; all zero for nil.
  [[nodiscard]] ChannelStats stats() const noexcept {
    return pointer() != nullptr ? pointer()->stats() : ChannelStats{};
  }
  /// As given at construction; empty for nil.
  [[nodiscard]] std::string_view name() const noexcept {
    return pointer() != nullptr ? std::string_view(pointer()->name()) : std::string_view();
  }
  /// For select's cases.
  [[nodiscard]] const ChannelRef& core() const noexcept { return core_; }

 protected:
  ChannelHandle() = default;
  explicit ChannelHandle(ChannelRef core) noexcept : core_(std::move(core)) {}

 private:
  [[nodiscard]] ChannelCore* pointer() const noexcept { return core_.get(); }

  ChannelRef core_;
};

/// The operations of a handle that may send.
template <class Handle, Sendable T>
class SendOperations {
 public:
  /// Waits until the value is buffered or taken. Throws ChannelClosed or Cancelled; the value is
  /// then unmoved.
  void send(T&& value) const {
    ChannelCore* const core = pointer();
    LockedChannel locked;  // of the nil channel
    if (core != nullptr) {
      locked = core->template send_to_ring<T>(std::move(value));
      if (!locked) return;
    }
    send_slowly(locked, value);
  }
  /// Sends a copy of `value`.
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
  /// Sends if that is possible at once. Moves from `value` only if it returns ok.
  [[nodiscard]] ChannelStatus try_send(T&& value) const {
    const ChannelCore* const core = pointer();
    if (core != nullptr && core->has_caller() && core->would_block(Case::Direction::kSend)) {
      return ChannelStatus::would_block;
    }
    const ChannelStatus status = transfer(value, Deadline::now());
    return status == ChannelStatus::timed_out ? ChannelStatus::would_block : status;
  }
  /// Waits at most until `deadline` (of the scheduler's clock). Moves from `value` only if it
  /// returns ok. Throws Cancelled.
  [[nodiscard]] ChannelStatus send_until(T&& value, TimePoint deadline) const {
    return transfer(value, Deadline(deadline));
  }
  /// No more values: wakes everybody who waits. Receivers drain what is buffered. With a cause,
  /// they then rethrow it. Throws ChannelClosed if it is closed already, or nil.
  void close(std::exception_ptr cause = nullptr) const { close_channel(pointer(), cause); }
  /// As close, for error paths: false, and no effect, if it is closed already or nil.
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
    Case one(core, Case::Direction::kSend, &value);
    if (locked.send_or_recv(one, deadline) < 0) return ChannelStatus::timed_out;
    return one.closed ? ChannelStatus::closed : ChannelStatus::ok;
  }
};

/// The operations of a handle that may receive.
template <class Handle, Sendable T>
class RecvOperations {
 public:
  class Iterator;

  /// Waits for a value; std::nullopt once the channel is closed and drained. Throws Cancelled, and
  /// the cause that the channel was closed with.
  std::optional<T> recv() const {
    std::optional<T> value;
    static_cast<void>(transfer(value, Deadline::never()));
    return value;
  }
  /// Receives into `value` if that is possible at once; otherwise leaves `value` empty. Throws the
  /// cause.
  [[nodiscard]] ChannelStatus try_recv(std::optional<T>& value) const {
    const ChannelCore* const core = static_cast<const Handle*>(this)->core().get();
    if (core != nullptr && core->has_caller() && core->would_block(Case::Direction::kRecv)) {
      value.reset();
      return ChannelStatus::would_block;
    }
    const ChannelStatus status = transfer(value, Deadline::now());
    return status == ChannelStatus::timed_out ? ChannelStatus::would_block : status;
  }
  /// Waits at most until `deadline` (of the scheduler's clock); leaves `value` empty unless it
  /// returns ok. Throws Cancelled and the cause.
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

/// A handle in both directions. See the top of the file.
template <Sendable T>
class Channel : public ChannelHandle,
                public SendOperations<Channel<T>, T>,
                public RecvOperations<Channel<T>, T> {
 public:
  using value_type = T;

  /// The nil channel.
  Channel() = default;
  /// A channel that buffers `capacity` values; 0 is a rendezvous. The name is for reports. Throws
  /// std::invalid_argument if the capacity is negative or its bytes overflow.
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
};

}  // namespace leat
