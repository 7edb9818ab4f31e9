// What Leat throws.
//
//  - Results, not errors: a closed, empty or full channel and a timeout are return values
//    (csp/channel.h), except where a value cannot be delivered: ChannelClosed.
//  - Error: the environment failed (a file, a device, a peer); says what failed, where, what to do.
//  - Cancelled: this fiber was asked to stop. It is not a std::exception, so that `catch (const
//    std::exception&)` around a loop body does not swallow it. Let it pass.
//  - Deadlock: every fiber waits and nothing can wake them.
//  - std::logic_error, std::invalid_argument: Leat was called in a way that cannot work.
#pragma once

#include <stdexcept>
#include <string>

namespace leat {

/// The environment failed. `what()` is one line: what failed, where, and what to do.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A send found its channel closed, or the channel was closed while the send waited. The value that
/// was not sent is still the caller's, unmoved. Where the channel was closed with a cause, the
/// cause is nested (std::rethrow_if_nested). Closing a closed or nil channel throws it too.
class ChannelClosed : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// This fiber was asked to stop while it waited, or would have had to wait. Delivered again at the
/// next wait (cancellation is sticky). Deliberately not derived from std::exception.
class Cancelled {};

/// Thrown by run() when every fiber is parked and nothing can wake any of them. `what()` lists the
/// fibers and what each one waits for, and a cycle, where mutexes, joins or full groups make one.
/// They are cancelled and joined first; where that moves none of them, because they are shielded,
/// their shields give way.
///
/// It is thrown only where it is certain: no timer or call of blocking() is pending, no device
/// event that is not of the run's own fibers is waited for, no OutsideWork lives, and none of the
/// channels, mutexes, semaphores and the like that are waited on was ever used by a plain thread or
/// by a fiber of another scheduler, which might come back. (To ask for figures is no use: size(),
/// stats(), available(), has_been_notified().) Then the wait goes on, and so it does in an embedded
/// Scheduler: there only its user knows who may still come.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace leat
