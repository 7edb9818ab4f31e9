// How a device reports to a select that an event is done: through a channel for each subscription.
//
// Always true: a signal's channel holds one token from notify() on, and none before. The backend
// holds a reference from subscribe() until it has called notify(), or until unsubscribe().
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/gpu/backend/pool.h"

namespace leat::gpu {

/// One subscription to one record of an event, for on_done (gpu/on_done.h). Reused by a Pool.
class DoneSignal {
 public:
  /// The token.
  struct Done {};

  /// Reports that the record is done, or that the device has failed with `error`. Called once by
  /// the backend, on any thread or fiber, with no lock held.
  void notify(std::exception_ptr error) noexcept {
    error_ = std::move(error);  // published by the channel
    keep_ready();
  }
  /// For deadlock reports: declares that fibers of `scheduler` will call notify(); null: no fiber.
  void set_notifier(const SchedulerCore* scheduler) const noexcept {
    channel_.core().get()->expect_only(scheduler);
  }
  /// Returns the channel on which the token is received.
  [[nodiscard]] const Channel<Done>& channel() const noexcept { return channel_; }
  /// Puts the token back, so that the channel stays ready. Called by the receiver of the token.
  void keep_ready() const noexcept {
    static_cast<void>(channel_.try_send(Done{}));  // there is room
  }
  /// Returns the error that the device failed with, or null. Called by the receiver of the token.
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

  /// Called by the pool.
  void recycle() noexcept {
    std::optional<Done> token;
    static_cast<void>(channel_.try_recv(token));
    error_ = nullptr;
  }

  // Used by the backend under its lock:
  DoneSignal* next = nullptr;
  DoneSignal* previous = nullptr;
  bool listed = false;
  void* self = nullptr;  // the list's reference
  /// The subscribed record, until unsubscribe(). Used by the subscriber's calls alone.
  void* record = nullptr;

 private:
  const Channel<Done> channel_{1, "on_done"};
  std::exception_ptr error_;
};

/// A reference to a signal, held by the subscriber and by the backend.
using DoneSignalRef = Pool<DoneSignal>::Ref;

/// The signals of one record. Not thread-safe: guarded by the lock of the record.
class DoneSignalList {
 public:
  /// Returns whether the list has no signal.
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Appends a signal; the list keeps the reference.
  void push(DoneSignalRef signal) noexcept {
    DoneSignal& one = *signal;
    one.self = signal.release();
    one.listed = true;
    one.previous = last_;
    one.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &one;
    last_ = &one;
  }
  /// Removes a signal and returns the list's reference; empty if the signal is not in the list.
  [[nodiscard]] DoneSignalRef remove(DoneSignal& one) noexcept {
    if (!one.listed) return {};
    (one.previous != nullptr ? one.previous->next : first_) = one.next;
    (one.next != nullptr ? one.next->previous : last_) = one.previous;
    one.listed = false;
    return DoneSignalRef::adopt(one.self);
  }
  /// Removes all signals and returns them as a chain for notify_all(), to be called after the lock.
  [[nodiscard]] DoneSignal* detach() noexcept {
    for (DoneSignal* one = first_; one != nullptr; one = one->next) one->listed = false;
    last_ = nullptr;
    return std::exchange(first_, nullptr);
  }
  /// Notifies the signals of a chain, the oldest first. Called with no lock held.
  static void notify_all(DoneSignal* chain, const std::exception_ptr& error) noexcept {
    while (chain != nullptr) {
      const DoneSignalRef one = DoneSignalRef::adopt(chain->self);
      chain = chain->next;  // not listed, so nothing else changes it
      one->notify(error);
    }
  }

 private:
  DoneSignal* first_ = nullptr;
  DoneSignal* last_ = nullptr;
};

}  // namespace leat::gpu
