#include "leat/csp/base/on_sigquit.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <utility>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/start_thread.h"

namespace leat {
namespace {

Atomic<std::uint32_t> requests{0};      // signals so far
Atomic<std::uint32_t> request_word{0};  // changed for every request and every end

std::mutex handler_mutex;
int users = 0;                           // handler_mutex
struct sigaction previous_sigquit = {};  // likewise

extern "C" void leat_on_sigquit(int /*signal*/) {
  const int error = errno;
  // Lock-free atomics and a system call: allowed in a handler.
  requests.fetch_add(1, std::memory_order_relaxed);
  request_word.fetch_add(1, std::memory_order_release);
  futex_wake_all(&request_word);
  errno = error;
}

}  // namespace

OnSigquit::OnSigquit(std::function<void()> f)
    : f_(std::move(f)), first_(requests.load(std::memory_order_relaxed)) {
  if (kExploring) return;  // its threads are simulated, and signals are not
  thread_ = start_thread("the thread that answers SIGQUIT", [this] { run(); });
  const std::scoped_lock lock(handler_mutex);
  if (users++ > 0) return;
  struct sigaction action = {};
  action.sa_handler = &leat_on_sigquit;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGQUIT, &action, &previous_sigquit);
}

OnSigquit::~OnSigquit() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(handler_mutex);
    if (--users == 0) sigaction(SIGQUIT, &previous_sigquit, nullptr);
  }
  ending_.store(true, std::memory_order_relaxed);
  request_word.fetch_add(1, std::memory_order_release);
  futex_wake_all(&request_word);
  thread_.join();
}

void OnSigquit::run() const noexcept {
  for (std::uint32_t answered = first_;;) {
    const std::uint32_t seen = request_word.load(std::memory_order_acquire);
    const bool ending = ending_.load(std::memory_order_relaxed);
    if (const std::uint32_t asked = requests.load(std::memory_order_relaxed); asked != answered) {
      answered = asked;
      try {
        f_();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "leat: on SIGQUIT: %s\n", error.what());
      }
    } else if (ending) {
      return;
    } else {
      futex_wait(request_word, seen, Deadline::never());
    }
  }
}

}  // namespace leat
