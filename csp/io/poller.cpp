#include "leat/csp/io/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/base/start_thread.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/scheduler_core.h"

namespace leat {
namespace {

constexpr std::uint64_t kEnd = ~std::uint64_t{0};  // the key of the eventfd

struct Latest {
  std::mutex lock;
  std::weak_ptr<Poller> poller;  // lock
};

}  // namespace

Poller::UniqueFd::UniqueFd(int fd, const char* call) : fd_(fd) {
  if (fd >= 0) return;
  throw Error(std::string("leat: cannot wait for descriptors: ") + call + ": " +
              std::generic_category().message(errno) +
              "; raise the limit on descriptors (ulimit -n), or close some");
}

Poller::UniqueFd::~UniqueFd() { ::close(fd_); }

Poller::Poller()
    : epoll_(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"),
      end_(eventfd(0, EFD_CLOEXEC), "eventfd") {
  if (const int error = control(EPOLL_CTL_ADD, end_.get(), EPOLLIN, kEnd); error != 0) {
    throw Error("leat: cannot wait for descriptors: epoll_ctl: " +
                std::generic_category().message(error));
  }
  thread_ = start_thread("the thread that waits for descriptors", [this] { run(); });
}

Poller::~Poller() {
  if (!home_.is_here()) {
    // Leaked: the thread is the parent's.
    static_cast<void>(new (std::nothrow) decltype(thread_)(std::move(thread_)));
    return;
  }
  if (!lost_) static_cast<void>(eventfd_write(end_.get(), 1));
  thread_.join();
}

std::shared_ptr<Poller> Poller::get() {
  Fiber* const fiber = Fiber::current();
  if (fiber != nullptr) {
    if (std::shared_ptr<Poller> kept = fiber->core().kept_poller()) return kept;
  }
  std::shared_ptr<Poller> poller;
  {
    auto& latest = of_this_process<Latest>();
    const std::lock_guard guard(latest.lock);
    poller = latest.poller.lock();
    if (poller == nullptr) {
      poller = std::make_shared<Poller>();
      latest.poller = poller;
    }
  }
  if (fiber != nullptr) fiber->core().keep_poller(poller);
  return poller;
}

int Poller::close_in_process(int descriptor) {
  std::shared_ptr<Poller> poller;
  {
    auto& latest = of_this_process<Latest>();
    const std::lock_guard guard(latest.lock);
    poller = latest.poller.lock();
    // Under the lock: otherwise a poller may be made, and wait for the descriptor.
    if (poller == nullptr) {
      Closings::here().note(descriptor);
      return ::close(descriptor) == 0 ? 0 : errno;
    }
  }
  // So that it does not end, and join its thread, on a fiber.
  if (Fiber* const fiber = Fiber::current()) fiber->core().keep_poller(poller);
  return poller->close_and_tell(descriptor);
}

int Poller::control(int operation, int descriptor, std::uint32_t events,
                    std::uint64_t key) noexcept {
  epoll_event event{.events = events, .data = {.u64 = key}};
  return epoll_ctl(epoll_.get(), operation, descriptor, &event) == 0 ? 0 : errno;
}

int Poller::close(int descriptor) noexcept { return ::close(descriptor) == 0 ? 0 : errno; }

void Poller::run() noexcept {
  prctl(PR_SET_NAME, "leat-epoll");
  std::array<epoll_event, 64> ready{};
  for (;;) {
    const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), -1);
    if (count < 0 && errno != EINTR) {
      lost_ = true;
      return;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<std::size_t>(i)];
      if (event.data.u64 == kEnd) return;
      deliver(event.data.u64, event.events);
    }
  }
}

}  // namespace leat
