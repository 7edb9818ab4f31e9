#include "leat/csp/fiber/stack_overflow.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "leat/csp/base/signal_chain.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/stack.h"

namespace leat {
namespace {

struct sigaction previous_sigsegv = {};

// A line of text that can be built and written in a signal handler: no allocation, no stdio.
class Line {
 public:
  Line& operator<<(std::string_view text) noexcept {
    const std::size_t length = std::min(text.size(), sizeof(text_) - length_);
    std::memcpy(text_ + length_, text.data(), length);
    length_ += length;
    return *this;
  }
  Line& operator<<(std::uint64_t number) noexcept {
    char digits[20];
    std::size_t first = sizeof(digits);
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return *this << std::string_view(digits + first, sizeof(digits) - first);
  }
  void write() const noexcept {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_, length_);
  }

 private:
  char text_[512];
  std::size_t length_ = 0;
};

void report_overflow(const Fiber* fiber, const void* fault) noexcept {
  if (fiber == nullptr) return;
  const StackSpan stack = fiber->stack();
  const auto address = reinterpret_cast<std::uintptr_t>(fault);
  const auto low = reinterpret_cast<std::uintptr_t>(stack.low);
  if (address >= low || address < low - StackPool::kGuard) return;
  Line line;
  line << "leat: stack overflow in fiber " << fiber->id();
  if (!fiber->name().empty()) line << " \"" << fiber->name() << "\"";
  line << ": its stack has " << stack.size << " bytes; give it more (GoOptions::stack_size)\n";
  line.write();
}

// Where the thread's worker has the fiber that it runs. Not a thread_local: in a shared object, the
// first use of one on a thread may allocate, which a handler must not. Reading this value never
// does.
pthread_key_t running_key = 0;

extern "C" void leat_on_sigsegv(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (!was_sent(*info)) {
    using Running = const RelaxedAtomic<Fiber*>;
    auto* const running = static_cast<Running*>(pthread_getspecific(running_key));
    if (running != nullptr) report_overflow(running->get(), info->si_addr);
  }
  pass_on(previous_sigsegv, signal, info, context);
  errno = error;
}

// Without a key there is no report, so there is no handler either.
bool install() noexcept {
  return pthread_key_create(&running_key, nullptr) == 0 &&
         install_in_front(SIGSEGV, &leat_on_sigsegv, previous_sigsegv);
}

bool is_installed() noexcept {
  static const bool installed = install();
  return installed;
}

}  // namespace

void prepare_stack_overflow_report() noexcept { static_cast<void>(is_installed()); }

SignalStack::SignalStack() {
  if (kExploring || !is_installed()) return;  // simulated workers share one thread
  const long least = sysconf(_SC_MINSIGSTKSZ);
  memory_.resize((std::size_t{16} << 10) + (least > 0 ? static_cast<std::size_t>(least) : 0));
}

SignalStack::Use::Use(SignalStack& stack, const RelaxedAtomic<Fiber*>& running) {
  if (stack.memory_.empty()) return;
  pthread_setspecific(running_key, &running);  // if it fails, this thread reports no overflow
  stack_t present = {};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  stack_t mine = {};
  mine.ss_sp = stack.memory_.data();
  mine.ss_size = stack.memory_.size();
  is_set_ = sigaltstack(&mine, nullptr) == 0;
}

SignalStack::Use::~Use() {
  if (kExploring || !is_installed()) return;
  pthread_setspecific(running_key, nullptr);
  if (!is_set_) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace leat
