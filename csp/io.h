// Sockets and pipes: cases of select that wait until a descriptor is readable or writable.
//
// Example
//   leat::select(leat::on_readable(connection, [&] { answer(connection); }),
//                leat::on_recv(batches, [&](auto batch) { train(std::move(batch)); }),
//                leat::on_timeout(10s, [&] { report_stall(); }));
//
// The descriptor is anything that poll(2) waits for: a socket, a pipe, a terminal, an eventfd. It
// should be non-blocking (O_NONBLOCK): Leat says when it is ready, read(2) and write(2) do the
// rest.
//
//   ssize_t n;
//   while ((n = read(socket, buffer, size)) < 0 && errno == EAGAIN) leat::await_readable(socket);
//
// Ready means what it means to poll(2): that a read (a write) would not block at some instant of
// the call. At the end of the data, at a hang-up and after an error it does not block either; the
// next read or write tells which. Where several fibers wait for one descriptor, each of them is
// woken; those that come too late get EAGAIN.
//
// A wait that must wait costs three or four system calls, and allocates. Before that, while waits
// of its thread are short, a fiber's wait lets other fibers run and looks again, for up to 50 us:
// some 150 calls of poll(2) if nothing else can run. Descriptors that nobody
// waits for, and those that are not ready, cost nothing. The first wait starts one thread for the
// process, which ends with the last scheduler whose fibers have waited; it sleeps while nothing is
// ready. Plain threads may wait too; where no scheduler has done so, that thread lives as long as
// the case.
//
// Closing: the kernel tells nobody that a descriptor was closed. So a descriptor that somebody may
// be waiting for is closed by close_descriptor(): the waits end with an Error. After a plain
// close(2) they go on, until the next wait for the same number that finds it not ready ends them
// with that Error; what another file with that number does never ends them. While a copy of the
// descriptor (dup, fork) is open, its file is, too.
//
// Thread and fiber safety: all functions may be called on any fiber and plain thread, and at the
// same time for one descriptor. A case is used by one fiber or thread at a time.
//
// Ownership and lifetime: cases and calls borrow the descriptor. Nothing here makes it
// non-blocking.
//
// Errors: leat::Error, which names the descriptor, if it is not open, or was closed meanwhile; if
// it is a regular file or a directory, which are always ready: read them by blocking(); if the
// system's limits on descriptors, on watches or on threads are reached. std::logic_error on a fiber
// of a scheduler with a VirtualClock: the other end of a socket does not take its time from it.
// Cancelled.
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
  /// As begin().
  DescriptorWatch(int descriptor, Direction direction);
  DescriptorWatch(DescriptorWatch&& other) noexcept;
  DescriptorWatch& operator=(DescriptorWatch&& other) = delete;
  ~DescriptorWatch();

  // What a case does for select (channel/select_cases.h). They throw Error.

  /// A select begins. Throws std::logic_error on a fiber whose clock is virtual.
  void begin(Deadline deadline);
  /// Whether the descriptor is not ready now. An error is ready: try_or_wait() throws it.
  [[nodiscard]] bool would_block() const noexcept;
  /// Waits until `deadline`. Returns 0, or Waiter::kTimedOut. Throws Cancelled, too.
  int try_or_wait(Case& one, Deadline deadline);
  /// Arms the wait, and sets the channel on which its token comes. A try arms nothing: without a
  /// channel, the case is never ready.
  void describe(Case& one);
  /// Throws what has ended the wait in place of the descriptor. Called after the wait.
  void rethrow_error();
  /// The case's channel is its own.
  struct OwnChannel {
    /// Nobody is to be made known to it.
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
  // So that select() beside otherwise() looks once, by the try.
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
/// handler(). Errors: see the top of this file; select throws them, this function logic_error.
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

/// Ends all waits for `descriptor`, in the whole process, with an Error that names it, and closes
/// it. No wait for the descriptor that follows with its number is ended. Throws leat::Error if it
/// is not open, or if close(2) reports that written data was lost; it is closed then, too. Other
/// waits stand still while close(2) runs, which SO_LINGER may make long.
void close_descriptor(int descriptor);

}  // namespace leat
