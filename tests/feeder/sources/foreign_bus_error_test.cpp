// SIGBUS that is not of a mapped file of ours.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
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
  static void handle(void (*handler)(int)) { std::signal(SIGBUS, handler); }
  // Installs our handler, and uses it.
  static void use_ours() {
    const TemporaryDirectory directory;
    const fs::path path = directory.write("a", Bytes(100));
    const MappedFile file(path);
    fs::resize_file(path, 0);
    std::vector<std::byte> out(100);
    EXPECT_THROW(file.read(0, out), Error);
  }
};

TEST_F(ForeignBusError, GoesToTheHandlerThatWasThereBefore) {
  EXPECT_EXIT(
      {
        handle([](int) { _exit(42); });
        use_ours();
        fault();
      },
      ::testing::ExitedWithCode(42), "");
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
  EXPECT_EXIT(
      {
        handle(SIG_DFL);
        use_ours();
        fault();
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        handle(SIG_IGN);
        use_ours();
        fault();
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(ForeignBusError, ThatWasSentIsTreatedAsBefore) {
  EXPECT_EXIT(
      {
        handle(SIG_DFL);
        use_ours();
        raise(SIGBUS);
        _exit(1);
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        handle(SIG_IGN);
        use_ours();
        raise(SIGBUS);
        _exit(44);
      },
      ::testing::ExitedWithCode(44), "");
}

}  // namespace foreign_bus_error_test
}  // namespace leat::feeder
