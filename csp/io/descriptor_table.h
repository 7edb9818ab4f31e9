// Who waits for which descriptor: the bridge between the kernel's events and the channels that
// selects wait on. It knows the kernel by control() and close() alone, so that the explorer can
// stand in for it.
//
// Always true under lock_:
//  - an entry of entries_ is a registration that the kernel has, or had until the descriptor was
//    closed. A listed wait is in the list of its descriptor's entry;
//  - a registration is armed for all waits of its entry, at once (EPOLLONESHOT); or its event is
//    on its way; or its descriptor was closed. It may be armed for nobody: a wait that leaves does
//    not tell the kernel, so one event may come that nobody wants;
//  - each arming has a number of its own, the generation, which its event carries. An event with
//    another number than its entry's is older than the latest arming, or is of a file that had this
//    descriptor's number before. It is ignored: arming looks at the descriptor's present state, so
//    nothing is lost;
//  - a wait's channel holds a token from tell() on, and is emptied by arm().
//
// A token is sent under lock_. So arm() and disarm() know that no older token comes later. A wait
// can be destroyed once it was disarmed, or its token was received: the table is done with it then.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>

#include "leat/csp/base/home_process.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/channel.h"
#include "leat/csp/io.h"

namespace leat {

/// A wait for one direction of one descriptor. The case of a select, or a call, owns it.
struct DescriptorWait {
  /// `interest` is EPOLLIN or EPOLLOUT.
  DescriptorWait(int fd, std::uint32_t interest);

  const int descriptor;
  const std::uint32_t events;
  const Channel<DescriptorReady> channel;
  std::exception_ptr error;  // what ended the wait; published by the token
  // lock_ of the table:
  bool listed = false;
  DescriptorWait* next = nullptr;
};

/// What close_descriptor() has closed in this process. It tells a wait that is not yet in the table
/// that its descriptor's number may be another file's. Thread-safe.
class Closings {
 public:
  static Closings& here() { return of_this_process<Closings>(); }
  /// Returns how many descriptors were closed.
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  /// Notes a close. Called before each.
  void note(int descriptor);
  /// Throws Error if the descriptor was closed since count() was `count`. The wait is for
  /// `interest`.
  void require_none(int descriptor, std::uint64_t count, std::uint32_t interest) {
    if (count != this->count()) look_up(descriptor, count, interest);
  }

 private:
  void look_up(int descriptor, std::uint64_t count, std::uint32_t interest);

  std::atomic<std::uint64_t> count_ = 0;
  std::mutex lock_;
  std::unordered_map<int, std::uint64_t> latest_;  // lock_; of each descriptor, as counted
};

/// Thread- and fiber-safe. Its lock is held while calling the kernel, which does not wait there,
/// and while waking a waiter.
class DescriptorTable {
 public:
  DescriptorTable() = default;
  DescriptorTable(const DescriptorTable&) = delete;
  DescriptorTable& operator=(const DescriptorTable&) = delete;
  virtual ~DescriptorTable() = default;

  /// Sends a token to the wait's channel once its descriptor is ready, or is found to be closed.
  /// Drops a token from before. Throws Error if the descriptor cannot be waited for, or was closed
  /// since Closings::count() was `closings`.
  void arm(DescriptorWait& wait, std::uint64_t closings);
  /// Sends the token now: the caller has seen that the descriptor is ready.
  void arm_ready(DescriptorWait& wait);
  /// Ends the wait: sends no token from here on.
  void disarm(DescriptorWait& wait) noexcept;
  /// Called with each event of the kernel.
  void deliver(std::uint64_t key, std::uint32_t events) noexcept;
  /// Ends all waits for a descriptor, and closes it. Returns the errno of close(2), or 0.
  int close_and_tell(int descriptor);

  /// The text of an Error about a descriptor that is not open.
  static std::string not_open(int descriptor);

 protected:
  /// epoll_ctl(2). Returns errno, or 0.
  virtual int control(int operation, int descriptor, std::uint32_t events,
                      std::uint64_t key) noexcept = 0;
  /// close(2). Returns errno, or 0.
  virtual int close(int descriptor) noexcept = 0;

 private:
  struct Entry {
    std::uint32_t generation = 0;
    DescriptorWait* waits = nullptr;
  };
  using Entries = std::unordered_map<int, Entry>;

  // All with lock_ held.
  int request(int operation, int descriptor, Entry& entry) noexcept;
  static void unlist(Entry& entry, DescriptorWait& wait) noexcept;
  static void tell(DescriptorWait& wait) noexcept;
  static void tell_closed(Entry& entry) noexcept;

  OsMutex lock_;
  Entries entries_;               // lock_
  std::uint32_t generation_ = 0;  // lock_; of the latest arming
};

}  // namespace leat
