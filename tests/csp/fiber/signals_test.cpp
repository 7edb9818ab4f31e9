// What the report of stack overflows does with the signals that are none of its business.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

namespace leat {
namespace signals_test {

constexpr std::size_t kPage = 4096;

// Each program begins anew, so that its handler is there before Leat's.
class SignalDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void handle_segv(void (*handler)(int, siginfo_t*, void*)) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

TEST_F(SignalDeathTest, ASentSegvEndsTheProgram) {
  EXPECT_EXIT(
      {
        const rlimit no_core{};
        setrlimit(RLIMIT_CORE, &no_core);
        std::signal(SIGSEGV, SIG_DFL);  // not a sanitizer's
        run([] { std::raise(SIGSEGV); }, {.workers = 1});
        _exit(0);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

volatile std::sig_atomic_t g_calls = 0;

TEST_F(SignalDeathTest, EverySentSegvReachesTheHandlerFromBefore) {
  EXPECT_EXIT(
      {
        handle_segv([](int, siginfo_t*, void*) { g_calls = g_calls + 1; });
        run(
            [] {
              std::raise(SIGSEGV);
              std::raise(SIGSEGV);
            },
            {.workers = 1});
        _exit(g_calls);
      },
      testing::ExitedWithCode(2), "");
}

void* g_no_access = nullptr;

__attribute__((noinline)) int recurse(int depth) {
  volatile char frame[512] = {};
  frame[static_cast<std::size_t>(depth) % sizeof(frame)] = 1;
  return depth > 0 ? recurse(depth - 1) + frame[0] : frame[0];
}

// As a virtual machine or a garbage collector does.
TEST_F(SignalDeathTest, AHandlerThatRecoversFromItsFaultsLeavesTheReport) {
  EXPECT_EXIT(
      {
        g_no_access = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        handle_segv([](int, siginfo_t* info, void*) {
          if (info->si_addr != g_no_access) _exit(3);
          mprotect(g_no_access, kPage, PROT_READ | PROT_WRITE);
        });
        run(
            [] {
              *static_cast<volatile char*>(g_no_access) = 1;
              TaskGroup group;
              group.go([] { static_cast<void>(recurse(100'000'000)); }, {.name = "glutton"});
              group.wait();
            },
            {.workers = 1});
      },
      testing::ExitedWithCode(3), "stack overflow in fiber [0-9]+ \"glutton\"");
}

}  // namespace signals_test
}  // namespace leat
