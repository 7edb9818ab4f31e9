#include "leat/csp/fiber/stack_overflow.h"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

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

extern "C" void leat_on_sigsegv(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (const Fiber* const fiber = Fiber::current()) {
    const StackSpan stack = fiber->stack();
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const auto low = reinterpret_cast<std::uintptr_t>(stack.low);
    if (address < low && address >= low - StackPool::kGuard) {
      Line line;
      line << "leat: stack overflow in fiber " << fiber->id();
      if (!fiber->name().empty()) line << " \"" << fiber->name() << "\"";
      line << ": its stack has " << stack.size << " bytes; give it more (GoOptions::stack_size)\n";
      line.write();
    }
  }
  // The instruction runs again, and faults again, now with the previous handler.
  sigaction(SIGSEGV, &previous_sigsegv, nullptr);
}

bool install() noexcept {
  struct sigaction action = {};
  action.sa_sigaction = &leat_on_sigsegv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGSEGV, &action, &previous_sigsegv) == 0;
}

}  // namespace

void prepare_stack_overflow_report() noexcept {
  [[maybe_unused]] static const bool installed = install();
}

SignalStack::SignalStack() {
  if constexpr (kExploring) return;  // the simulated workers share one thread
  stack_t present = {};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  const long least = sysconf(_SC_MINSIGSTKSZ);
  const std::size_t size =
      (std::size_t{16} << 10) + (least > 0 ? static_cast<std::size_t>(least) : 0);
  memory_ = std::make_unique<std::byte[]>(size);
  stack_t mine = {};
  mine.ss_sp = memory_.get();
  mine.ss_size = size;
  if (sigaltstack(&mine, nullptr) != 0) memory_ = nullptr;
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace leat
