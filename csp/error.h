// The exceptions of Leat.
//
// | type | thrown when |
// |---|---|
// | Error | the environment failed: a file, a device, a peer |
// | OutOfMemory | an Error: there is not enough memory of the host or of a device |
// | ChannelClosed | a value cannot be sent, because the channel is closed |
// | Cancelled | the calling fiber was asked to stop |
// | Deadlock | every fiber waits and nothing can wake one |
// | std::logic_error, std::invalid_argument | Leat was called in a way that cannot work |
//
// A closed, empty or full channel and a timeout are return values (csp/channel.h), not exceptions,
// except where a value cannot be sent.
//
// Cancelled is not a std::exception, so that `catch (const std::exception&)` around a loop's body
// does not swallow it. Do not catch it: destructors clean up.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/base/required.h"

namespace leat {

/// The environment failed: a file, a device, a peer. what() is one line: what failed, where, what
/// to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// There is not enough memory for a large allocation: pinned memory, a device's memory, a fiber's
/// stack, a file's contents. Limits that the user has set (MemoryCaps) throw other errors, and a
/// small allocation of the host throws std::bad_alloc. What was allocated before stays usable.
class OutOfMemory : public Error {
 public:
  /// what() is `request`, and then `reason`, which also says what to do.
  OutOfMemory(std::size_t bytes, std::string request, const std::string& reason)
      : Error("leat: " + request + ": " + reason), bytes_(bytes), request_(std::move(request)) {}

  /// Returns how many bytes were asked for; 0 if that is not known.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Returns what asked: the call, the kind of memory and the device, such as "cudaMalloc(1048576
  /// bytes) on cuda:0" or "allocate 1048576 bytes of pinned memory on host".
  [[nodiscard]] const std::string& request() const noexcept { return request_; }

 private:
  std::size_t bytes_;
  std::string request_;
};

/// A send found its channel closed, or the channel was closed while the send waited. The caller
/// still has the value, unmoved. If the channel was closed with a cause, the cause is nested
/// (std::rethrow_if_nested). Closing a closed or nil channel throws this type too.
class ChannelClosed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Thrown on a fiber that was asked to stop, where it waits, would have to wait, or gives way.
/// Sticky: the next wait throws it again. Not derived from std::exception.
///
/// While an exception unwinds the fiber, waits do not throw Cancelled: a destructor may wait, to
/// give something back. Such a wait lasts until it succeeds. In a Deadlock, such a wait ends the
/// program after the report is printed. A destructor that waits at other times needs a Shield.
class Cancelled {};

/// Every fiber of a run() waits, and nothing in sight can wake one. what() lists the fibers, what
/// each one waits for, and the cycle, if mutexes, joins or full groups form one. run() cancels and
/// joins the fibers before it throws. If they are shielded and cancellation moves none of them,
/// their shields give way.
///
/// run() throws it after SchedulerOptions::deadlock_after (1 s) without any progress; with a
/// virtual clock at once. During this time a plain thread may use one of their objects for the
/// first time, and so wake a fiber. The fibers continue to wait, however long, if
///  - a timer or a call of blocking() is pending;
///  - a fiber waits for a descriptor, or for a device event that is not from the run's fibers;
///  - an OutsideWork lives, for a thread that comes later than deadlock_after;
///  - a plain thread, or a fiber of another scheduler, has ever used an object that a fiber waits
///    on (a channel, a mutex, a semaphore...): that thread or fiber may still wake the fiber that
///    waits. Calls that only read a figure do not count: size(), stats(), available(),
///    has_been_notified().
///
/// A Scheduler of your own reports no deadlock: it cannot know which threads may still come.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace leat
