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

#include "leat/csp/io/descriptor_table.h"
#include "leat/csp/wait/home_process.h"

namespace leat {

/// Lives as long as a scheduler whose fibers have used it, or a wait. Thread- and fiber-safe.
class Poller final : public DescriptorTable, public std::enable_shared_from_this<Poller> {
 public:
  /// Starts the thread. Throws Error.
  Poller();
  /// Joins the thread; on no fiber, because the schedulers of those that use the poller keep it.
  ~Poller() override;

  /// The poller of the calling process, made if there is none, and kept by the calling fiber's
  /// scheduler. Throws Error if it cannot be made.
  static std::shared_ptr<Poller> get();
  /// close_and_tell() of the poller of the calling process, if there is one, which the calling
  /// fiber's scheduler then keeps; else close(2), noted in Closings.
  static int close_in_process(int descriptor);

  /// The process that has its thread.
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
