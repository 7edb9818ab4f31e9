// SIGBUS that is not of a mapped file of ours.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/sources/mapped_file.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace foreign_bus_error_test {

namespace fs = std::filesystem;

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// What happens to a SIGBUS that is not ours, in a process of its own.
class ForeignBusError : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Reads behind the end of a file that is mapped without a guard.
  static void fault() {
    const TemporaryDirectory directory;
    const fs::path path = directory.write("foreign", Bytes(100));
    std::FILE* const file = std::fopen(path.c_str(), "rb");
    void* const pages = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(file), 0);
    fs::resize_file(path, 0);
    fs::remove_all(directory.path());
    static_cast<void>(*static_cast<const volatile char*>(pages));
    _exit(1);
  }
  // Installs our handler, and uses it.
  static void use_ours() {
    const TemporaryDirectory directory;
    const fs::path path = directory.write("a", Bytes(100));
    const MappedFile file(path);
    fs::resize_file(path, 0);
    std::vector<std::byte> out(100);
    EXPECT_THROW(file.read(0, out), Error);
  }

  // Ends the process by `end` where the handler, or the absence of one, was there before ours.
  static void end_with(void (*handler)(int), const std::function<void()>& end) {
    std::signal(SIGBUS, handler);
    use_ours();
    end();
  }
};

TEST_F(ForeignBusError, GoesToTheHandlerThatWasThereBefore) {
  EXPECT_EXIT(end_with([](int) { _exit(42); }, fault), ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = [](int, siginfo_t* info, void*) {
          _exit(info->si_code == BUS_ADRERR ? 43 : 1);
        };
        sigaction(SIGBUS, &action, nullptr);
        use_ours();
        fault();
      },
      ::testing::ExitedWithCode(43), "");
}

TEST_F(ForeignBusError, EndsTheProcessIfThereWasNone) {
  for (void (*const none)(int) : {SIG_DFL, SIG_IGN}) {
    EXPECT_EXIT(end_with(none, fault), ::testing::KilledBySignal(SIGBUS), "");
  }
}

TEST_F(ForeignBusError, ThatWasSentIsTreatedAsBefore) {
  const auto send = [] {
    raise(SIGBUS);
    _exit(44);
  };
  EXPECT_EXIT(end_with(SIG_DFL, send), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(end_with(SIG_IGN, send), ::testing::ExitedWithCode(44), "");
}

}  // namespace foreign_bus_error_test
}  // namespace leat::feeder
