// How a device tells a select that an event is done: through a channel of its own.
//
// Always true: a signal's channel holds one token from reach() on, and none before; the backend
// holds a reference from subscribe() until it has called reach(), or until unsubscribe().
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/gpu/backend/pool.h"

namespace leat::gpu {

/// One subscription to one record of an event, for on_done (gpu/on_done.h). Used again after it.
class DoneSignal {
 public:
  /// The token.
  struct Done {};

  /// By the backend, once, on any thread or fiber, without a lock held: the record is done, or the
  /// device has failed with `error`.
  void reach(std::exception_ptr error) noexcept {
    error_ = std::move(error);  // published by the channel
    put_token();
  }
  /// Who will reach it: fibers of `scheduler`, or (null) something that is no fiber.
  void expect_from(const SchedulerCore* scheduler) const noexcept {
    channel_.core().get()->expect_only(scheduler);
  }
  /// Receives a token once it is reached.
  [[nodiscard]] const Channel<Done>& channel() const noexcept { return channel_; }
  /// By who has received the token: so that it is found again.
  void put_token() const noexcept {
    static_cast<void>(channel_.try_send(Done{}));  // there is room
  }
  /// By who has received the token: what the device failed with, or null.
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

  /// For the pool.
  void recycle() noexcept {
    std::optional<Done> token;
    static_cast<void>(channel_.try_recv(token));
    error_ = nullptr;
  }

  // The backend's, under its lock:
  DoneSignal* next = nullptr;
  DoneSignal* previous = nullptr;
  bool listed = false;
  void* self = nullptr;  // the backend's reference, until it has reached it
  /// The backend's, touched by the subscriber's calls alone: the record, kept until unsubscribe().
  void* record = nullptr;

 private:
  const Channel<Done> channel_{1, "on_done"};
  std::exception_ptr error_;
};

/// One user of a signal: its subscriber, or the backend.
using DoneSignalRef = Pool<DoneSignal>::Ref;

/// The signals of one record. Under the lock of what owns it.
class DoneSignalList {
 public:
  /// Whether nobody is to be told of the record.
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Takes a reference.
  void push(DoneSignalRef signal) noexcept {
    DoneSignal& one = *signal;
    one.self = signal.release();
    one.listed = true;
    one.previous = last_;
    one.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &one;
    last_ = &one;
  }
  /// Gives the reference back; empty if the signal is not in the list.
  [[nodiscard]] DoneSignalRef remove(DoneSignal& one) noexcept {
    if (!one.listed) return {};
    (one.previous != nullptr ? one.previous->next : first_) = one.next;
    (one.next != nullptr ? one.next->previous : last_) = one.previous;
    one.listed = false;
    return DoneSignalRef::adopt(one.self);
  }
  /// Takes all out: a chain for reach_all(), after the lock.
  [[nodiscard]] DoneSignal* detach() noexcept {
    for (DoneSignal* one = first_; one != nullptr; one = one->next) one->listed = false;
    last_ = nullptr;
    return std::exchange(first_, nullptr);
  }
  /// Reaches those that were detached, oldest first. Without any lock held.
  static void reach_all(DoneSignal* chain, const std::exception_ptr& error) noexcept {
    while (chain != nullptr) {
      const DoneSignalRef one = DoneSignalRef::adopt(chain->self);
      chain = chain->next;  // nobody else touches it: it is not listed
      one->reach(error);
    }
  }

 private:
  DoneSignal* first_ = nullptr;
  DoneSignal* last_ = nullptr;
};

}  // namespace leat::gpu
