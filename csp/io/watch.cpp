#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "leat/csp/base/cycles.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/io.h"
#include "leat/csp/io/descriptor_table.h"
#include "leat/csp/io/poller.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker.h"
#include "leat/csp/scheduler.h"

namespace leat {
namespace {

// Whether the last wait of this thread's fibers was short: then the next one may be, too. Not
// inlined, because a fiber may be on another thread after a wait; and hidden from ThreadSanitizer,
// to which the fibers of a thread are several threads.
#define LEAT_OF_THIS_THREAD __attribute__((noinline, no_sanitize("thread")))
thread_local constinit bool t_waits_are_short = true;

LEAT_OF_THIS_THREAD bool waits_are_short() noexcept { return t_waits_are_short; }
LEAT_OF_THIS_THREAD void set_waits_are_short(bool are) noexcept { t_waits_are_short = are; }

std::uint32_t events_of(DescriptorWatch::Direction direction) noexcept {
  return direction == DescriptorWatch::Direction::kRead ? EPOLLIN : EPOLLOUT;
}

}  // namespace

DescriptorWatch::DescriptorWatch(int descriptor, Direction direction)
    : descriptor_(descriptor), direction_(direction) {
  begin(Deadline::never());
}

void DescriptorWatch::begin(Deadline deadline) {
  if (poller_ != nullptr) poller_->home().require("a wait for a descriptor");
  is_try_ = deadline.is_now();
  seen_ready_ = false;
  closings_ = Closings::here().count();
  if (kExploring || (on_fiber() && Fiber::current()->core().clock().is_virtual())) {
    throw std::logic_error(
        "leat: a wait for descriptor " + std::to_string(descriptor_) +
        " under a VirtualClock: the other end of a socket takes its time from no clock of ours; " +
        "wait in a scheduler with real time, or put a channel in the socket's place");
  }
}

DescriptorWatch::DescriptorWatch(DescriptorWatch&& other) noexcept = default;

DescriptorWatch::~DescriptorWatch() {
  if (poller_ == nullptr || armed_at_ == 0 || !poller_->home().is_here()) return;
  poller_->disarm(*wait_);
  set_waits_are_short(false);  // another case was chosen
}

bool DescriptorWatch::is_ready() const {
  const short interest = direction_ == Direction::kRead ? POLLIN : POLLOUT;
  pollfd one{.fd = descriptor_, .events = interest, .revents = 0};
  int count = 0;
  do {
    count = poll(&one, 1, 0);
  } while (count < 0 && errno == EINTR);
  if (count > 0) Closings::here().require_none(descriptor_, closings_, events_of(direction_));
  // poll() passes over negative numbers.
  if (descriptor_ < 0 || (one.revents & POLLNVAL) != 0) {
    throw Error(DescriptorTable::not_open(descriptor_));
  }
  return count > 0;
}

bool DescriptorWatch::is_ready_at_first_look() const {
  if (!is_ready()) return false;
  // ThreadSanitizer takes a close_descriptor() beside this call for a race.
  const TsanIgnoreScope of_the_descriptor;
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
    return true;
  }
  throw Error(
      "leat: cannot wait for descriptor " + std::to_string(descriptor_) +
      ": it is a regular file or a directory, which is always ready, and whose reads wait " +
      "for a disk; read it by blocking()");
}

// Often one of the other fibers makes the descriptor ready, and then neither the kernel nor the
// poller's thread has anything to do. After that, as a plain thread does, it looks by for a while.
bool look_again(Cycles& since, Deadline deadline) {
  if (deadline.is_now() || !on_fiber()) return false;
  if (!deadline.is_never() && leat::now() >= deadline.at()) return false;
  const Cycles now = cycles_now();
  if (since == 0) {
    since = now;
  } else if (now - since > cycles_in(tuning::kSpin) || !waits_are_short()) {
    return false;
  }
  yield();
  return true;
}

bool DescriptorWatch::would_block() const noexcept {
  try {
    seen_ready_ = is_ready_at_first_look();
    return !seen_ready_;
  } catch (...) {
    return false;
  }
}

int DescriptorWatch::try_or_wait(Case& one, Deadline deadline) {
  token_.reset();
  if (Fiber* const fiber = Fiber::current(); fiber != nullptr && !deadline.is_try()) {
    // Its system calls take as long as eight operations on channels.
    if (Worker::current()->ends_slice(8)) fiber->give_way();
  }
  if (std::exchange(seen_ready_, false) || is_ready_at_first_look()) return 0;
  if (deadline.is_now()) return Waiter::kTimedOut;
  for (Cycles since = 0; look_again(since, deadline);) {
    if (is_ready()) return 0;
  }
  arm(one, false);
  const LockedChannel locked = one.channel->recv_from_ring(token_);
  return locked ? locked.send_or_recv(one, deadline) : 0;
}

void DescriptorWatch::describe(Case& one) {
  token_.reset();
  const bool is_ready = is_ready_at_first_look();
  if (is_ready || !is_try_) arm(one, is_ready);
}

void DescriptorWatch::arm(Case& one, bool is_ready) {
  if (wait_ == nullptr) {
    wait_ = std::make_unique<DescriptorWait>(descriptor_, events_of(direction_));
  }
  if (poller_ == nullptr && !is_ready) poller_ = Poller::get();
  armed_at_ = cycles_now();
  if (!is_ready) {
    poller_->arm(*wait_, closings_);
  } else if (poller_ != nullptr) {
    poller_->arm_ready(*wait_);
  } else {
    static_cast<void>(wait_->channel.try_send({}));  // or it has a token
  }
  one.channel = wait_->channel.core().get();
  one.direction = Case::Direction::kRecv;
  one.node.slot = &token_;
}

void DescriptorWatch::rethrow_error() {
  // Without a token, the descriptor was seen to be ready; the wait, if there is one, may go on.
  if (!token_.has_value()) return;
  set_waits_are_short(cycles_now() - std::exchange(armed_at_, 0) < cycles_in(tuning::kShortSleep));
  if (wait_->error != nullptr) std::rethrow_exception(wait_->error);
}

namespace {

bool await(int descriptor, DescriptorWatch::Direction direction, Deadline deadline) {
  DescriptorWatch watch(descriptor, direction);
  Case one;
  if (watch.try_or_wait(one, deadline) < 0) return false;
  watch.rethrow_error();
  return true;
}

}  // namespace

void await_readable(int descriptor) {
  await(descriptor, DescriptorWatch::Direction::kRead, Deadline::never());
}

void await_writable(int descriptor) {
  await(descriptor, DescriptorWatch::Direction::kWrite, Deadline::never());
}

bool await_readable_until(int descriptor, TimePoint deadline) {
  return await(descriptor, DescriptorWatch::Direction::kRead, Deadline(deadline));
}

bool await_writable_until(int descriptor, TimePoint deadline) {
  return await(descriptor, DescriptorWatch::Direction::kWrite, Deadline(deadline));
}

void close_descriptor(int descriptor) {
  const int error = Poller::close_in_process(descriptor);
  if (error == 0 || error == EINTR) return;  // EINTR: closed, in Linux
  throw Error("leat: close descriptor " + std::to_string(descriptor) + ": " +
              std::generic_category().message(error) +
              (error == EBADF ? "; it was closed before" : "; it is closed, and data was lost"));
}

}  // namespace leat
