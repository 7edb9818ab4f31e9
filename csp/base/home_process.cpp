#include "leat/csp/base/home_process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>

namespace leat {
namespace {

// 0 until the first call.
constinit std::atomic<pid_t> process_id{0};

extern "C" void leat_note_process() { process_id.store(getpid(), std::memory_order_relaxed); }

}  // namespace

pid_t HomeProcess::current() noexcept {
  const pid_t known = process_id.load(std::memory_order_relaxed);
  if (__builtin_expect(known != 0, 1)) return known;
  // Without memory for the registration, a child is not told from its parent.
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, &leat_note_process);
  leat_note_process();
  return process_id.load(std::memory_order_relaxed);
}

void HomeProcess::refuse(const char* object) const {
  throw std::logic_error("leat: " + std::string(object) + " of process " + std::to_string(id_) +
                         " is used in its child, process " + std::to_string(current()) +
                         ": its threads are not there after a fork; make another one in the child");
}

}  // namespace leat
