// The thread that waits for descriptors by epoll(7): one for the process, since descriptors are the
// process's. It sleeps until a descriptor that somebody waits for is ready.
//
// Fibers and threads register their waits themselves: epoll_ctl(2) may be called while the thread
// sleeps in epoll_wait(2). So the thread needs no inbox, and an eventfd ends it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "leat/csp/base/home_process.h"
#include "leat/csp/io/descriptor_table.h"

namespace leat {

/// Lives as long as a scheduler whose fibers have used it, or a wait. Thread- and fiber-safe.
class Poller final : public DescriptorTable, public std::enable_shared_from_this<Poller> {
 public:
  /// Starts the thread. Throws Error.
  Poller();
  /// Joins the thread. Not on a fiber: the schedulers of fibers that use the poller keep it.
  ~Poller() override;

  /// Returns the poller of the calling process, made if there is none. The calling fiber's
  /// scheduler keeps it. Throws Error if it cannot be made.
  static std::shared_ptr<Poller> get();
  /// Calls close_and_tell() of the process's poller, if there is one; the calling fiber's scheduler
  /// then keeps that poller. Else calls close(2), noted in Closings.
  static int close_in_process(int descriptor);

  /// Returns the process that has its thread.
  [[nodiscard]] const HomeProcess& home() const noexcept { return home_; }

 protected:
  int control(int operation, int descriptor, std::uint32_t events,
              std::uint64_t key) noexcept override;
  int close(int descriptor) noexcept override;

 private:
  /// Closes its descriptor. -1: none.
  class UniqueFd {
   public:
    /// Throws Error if a descriptor could not be made: `fd` is -1.
    UniqueFd(int fd, const char* call);
    ~UniqueFd();
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }

   private:
    const int fd_;
  };

  void run() noexcept;

  const HomeProcess home_;
  const UniqueFd epoll_;
  const UniqueFd end_;              // an eventfd
  std::atomic<bool> lost_ = false;  // somebody has closed its descriptors: close_range(2)
  std::thread thread_;
};

}  // namespace leat
