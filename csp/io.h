// Sockets and pipes: cases of select that wait until a descriptor is readable or writable.
//
// Example
//   leat::select(leat::on_readable(connection, [&] { answer(connection); }),
//                leat::on_recv(batches, [&](auto batch) { train(std::move(batch)); }),
//                leat::on_timeout(10s, [&] { report_stall(); }));
//
// The descriptor is anything that poll(2) waits for: a socket, a pipe, a terminal, an eventfd. It
// should be non-blocking (O_NONBLOCK): Leat tells when it is ready for read(2) and write(2).
//
//   ssize_t n;
//   while ((n = read(socket, buffer, size)) < 0 && errno == EAGAIN) leat::await_readable(socket);
//
// Ready means the same as for poll(2): a read (a write) would not block at some instant of the
// call. The end of the data, a hang-up and an error count as ready; the next read or write tells
// which. If several fibers wait for one descriptor, all are woken; those that come too late get
// EAGAIN.
//
// Cost: a wait for a descriptor that is not ready takes three or four system calls, and allocates.
// Before that, if the last wait on its thread was short, a fiber lets other fibers run and looks
// again, for up to 50 us: some 150 calls of poll(2) if nothing else can run. A descriptor costs
// nothing while it is not ready or nobody waits for it. The first wait starts one thread for the
// process. The thread sleeps while nothing is ready, and ends with the last scheduler whose fibers
// have waited. Plain threads may wait too; if only these have, the thread lives as long as their
// cases.
//
// Closing: the kernel tells nobody that a descriptor was closed. So close a descriptor that
// somebody may wait for by close_descriptor(): the waits end with an Error. After a plain close(2)
// the waits go on. The next wait for the same number that finds it not ready ends them with that
// Error. Events of another file with that number never end them. A file stays open while a copy of
// its descriptor (dup, fork) is open.
//
// Thread and fiber safety: all functions may be called on any fiber and plain thread, and at the
// same time for one descriptor. A case is used by one fiber or thread at a time.
//
// Ownership and lifetime: cases and calls borrow the descriptor. Nothing here makes it
// non-blocking.
//
// Errors: Cancelled. leat::Error, which names the descriptor, if it is not open or was closed
// meanwhile; if it is a regular file or a directory (always ready: read them by blocking()); if a
// limit of the system on descriptors, watches or threads is reached. std::logic_error on a fiber of
// a scheduler with a VirtualClock: the other end of a socket does not follow that clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "leat/csp/base/cycles.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"
#include "leat/csp/select.h"

namespace leat {

struct DescriptorWait;
class Poller;

/// What the channel of a wait sends once its descriptor is ready.
struct DescriptorReady {};

/// How a case waits for its descriptor. on_readable and on_writable hold one.
class DescriptorWatch {
 public:
  enum class Direction : std::uint8_t { kRead, kWrite };
  /// Begins as begin(), and throws as it does.
  DescriptorWatch(int descriptor, Direction direction);
  DescriptorWatch(DescriptorWatch&& other) noexcept;
  DescriptorWatch& operator=(DescriptorWatch&& other) = delete;
  ~DescriptorWatch();

  // The functions of a case for select (channel/select_cases.h). They throw Error.

  /// Notes that a select begins. Throws std::logic_error on a fiber whose clock is virtual.
  void begin(Deadline deadline);
  /// Returns whether the descriptor is not ready now; false on an error: try_or_wait() throws it.
  [[nodiscard]] bool would_block() const noexcept;
  /// Waits until `deadline`. Returns 0, or Waiter::kTimedOut. Throws Cancelled, too.
  int try_or_wait(Case& one, Deadline deadline);
  /// Arms the wait, and sets the channel on which its token comes. A try arms nothing: without a
  /// channel, the case is never ready.
  void describe(Case& one);
  /// Throws the error that has ended the wait, if there is one. Called after the wait.
  void rethrow_error();
  /// The case's channel is its own.
  struct OwnChannel {
    /// True: no caller has to be made known to it.
    [[nodiscard]] static constexpr bool has_caller() noexcept { return true; }
  };
  [[nodiscard]] static constexpr OwnChannel channel() noexcept { return {}; }

 private:
  [[nodiscard]] bool is_ready() const;
  [[nodiscard]] bool is_ready_at_first_look() const;
  void arm(Case& one, bool is_ready);

  int descriptor_;
  Direction direction_;
  bool is_try_ = false;                   // of this select
  mutable bool seen_ready_ = false;       // by would_block(), for the try that follows
  std::uint64_t closings_ = 0;            // before this select (csp/io/descriptor_table.h)
  Cycles armed_at_ = 0;                   // 0: not, or the token was received
  std::optional<DescriptorReady> token_;  // received from the wait's channel
  std::shared_ptr<Poller> poller_;        // from the first real wait on
  std::unique_ptr<DescriptorWait> wait_;
};

/// Made by on_readable and on_writable.
template <class F>
class DescriptorCase : public DescriptorWatch {
 public:
  static constexpr bool kIsChannelCase = true;
  static constexpr bool kOnce = false;
  // With this direction, a select() with otherwise() looks once, by the try.
  static constexpr Case::Direction kDirection = Case::Direction::kSend;
  DescriptorCase(int descriptor, Direction direction, F handler)
      : DescriptorWatch(descriptor, direction), handler_(std::move(handler)) {}
  DescriptorCase owned() && { return std::move(*this); }
  void act(const Case& /*chosen*/) {
    rethrow_error();
    handler_();
  }

 private:
  F handler_;
};

/// A case of select and Selector that is ready while `descriptor` is readable; select then calls
/// handler(). This function throws std::logic_error, select all other errors (see the top).
template <class F = NoHandler>
[[nodiscard]] DescriptorCase<F> on_readable(int descriptor, F handler = {}) {
  return {descriptor, DescriptorWatch::Direction::kRead, std::move(handler)};
}

/// As on_readable(), while `descriptor` is writable.
template <class F = NoHandler>
[[nodiscard]] DescriptorCase<F> on_writable(int descriptor, F handler = {}) {
  return {descriptor, DescriptorWatch::Direction::kWrite, std::move(handler)};
}

/// Waits until `descriptor` is readable. Errors: see the top of this file.
void await_readable(int descriptor);
/// Waits until `descriptor` is writable. Errors: see the top of this file.
void await_writable(int descriptor);
/// As await_readable(), but at most until `deadline` (of the caller's clock: leat::now()). Returns
/// whether the descriptor is readable.
[[nodiscard]] bool await_readable_until(int descriptor, TimePoint deadline);
/// As await_readable_until(), for await_writable().
[[nodiscard]] bool await_writable_until(int descriptor, TimePoint deadline);

/// Closes `descriptor`, and ends all waits for it in the whole process with an Error that names it.
/// Waits for a later descriptor with the same number go on. Throws leat::Error if `descriptor` is
/// not open, or if close(2) reports that written data was lost; the descriptor is then closed, too.
/// Other waits are held up while close(2) runs, which may be long with SO_LINGER.
void close_descriptor(int descriptor);

}  // namespace leat
