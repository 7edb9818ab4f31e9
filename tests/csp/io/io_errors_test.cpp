// Waits for descriptors that are refused, or ended by something else: a close, a limit, a fork.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/io.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/csp/io/ends.h"
#include "tests/support/child.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"
#include "tests/support/thread_limit.h"

namespace leat {
namespace io_errors_test {

using namespace std::chrono_literals;
using support::Ends;
using support::fill;
using support::has;
using support::on_fibers;
using support::put;
using support::take;
using support::text_thrown_by;
using support::until_waited_for;

TEST(Io, AVirtualClockIsRefused) {
  const Ends ends = Ends::sockets();
  support::run_each([&] {
    const std::string text =
        text_thrown_by<std::logic_error>([&] { select(on_readable(ends[0]), otherwise()); });
    EXPECT_TRUE(has(text, "VirtualClock")) << text;
    EXPECT_TRUE(has(text, "descriptor " + std::to_string(ends[0]))) << text;
  });
}

TEST(Io, AVirtualClockIsRefusedByACaseFromOutside) {
  const Ends ends = Ends::sockets();
  Selector any;
  any.add(on_readable(ends[0]));
  auto one = on_readable(ends[0]);
  support::run_each([&] {
    EXPECT_TRUE(has(text_thrown_by<std::logic_error>([&] { any.try_select(); }), "VirtualClock"));
    EXPECT_TRUE(has(text_thrown_by<std::logic_error>([&] { select(std::move(one), otherwise()); }),
                    "VirtualClock"));
  });
}

TEST(Io, ADescriptorThatIsNotOpenIsNamed) {
  on_fibers([] {
    const int closed = 900;  // no other descriptor gets this number
    const Channel<int> never(0);
    for (const int fd : {-1, closed, 1'000'000}) {
      const std::string expected =
          "leat: cannot wait for descriptor " + std::to_string(fd) + ": it is not open";
      EXPECT_TRUE(has(text_thrown_by<Error>([&] { await_readable(fd); }), expected));
      EXPECT_TRUE(
          has(text_thrown_by<Error>([&] { select(on_writable(fd), otherwise()); }), expected));
      EXPECT_TRUE(
          has(text_thrown_by<Error>([&] { select(on_recv(never), on_readable(fd)); }), expected));
      Selector any;
      any.add(on_recv(never));
      any.add(on_readable(fd));
      EXPECT_TRUE(has(text_thrown_by<Error>([&] { any.select(); }), expected));
    }
    EXPECT_TRUE(has(text_thrown_by<Error>([&] { close_descriptor(closed); }),
                    std::to_string(closed) + ": Bad file descriptor"));
  });
}

TEST(Io, AFileAndADirectoryAreRefused) {
  on_fibers([] {
    for (const char* const path : {"/proc/self/exe", "/"}) {
      const int fd = open(path, O_RDONLY | O_CLOEXEC);
      const Channel<int> never(0);
      for (const auto& wait :
           {std::function<void()>([&] { await_readable(fd); }),
            std::function<void()>([&] { select(on_recv(never), on_writable(fd)); })}) {
        const std::string text = text_thrown_by<Error>(wait);
        EXPECT_TRUE(has(text, "descriptor " + std::to_string(fd) + ": it is a regular file"))
            << text;
        EXPECT_TRUE(has(text, "blocking()")) << text;
      }
      close(fd);
    }
  });
}

TEST(Io, ClosingADescriptorEndsAllWaitsForIt) {
  on_fibers([] {
    Ends ends = Ends::sockets();
    fill(ends[0]);
    const int fd = ends.give(0);
    const std::string expected = "leat: descriptor " + std::to_string(fd) + " was closed during";
    const auto wait = [&](const auto& f) {
      EXPECT_TRUE(has(text_thrown_by<Error>(f), expected)) << expected;
    };
    const Channel<int> never(0);
    TaskGroup group;
    group.go([&] { wait([&] { await_readable(fd); }); });
    group.go([&] { wait([&] { await_writable(fd); }); });
    group.go([&] { wait([&] { select(on_recv(never), on_readable(fd)); }); });
    until_waited_for(fd, "readable", 2);
    until_waited_for(fd, "writable");
    const int copy = dup(fd);  // the file is still open
    close_descriptor(fd);
    group.wait();
    close(copy);
  });
}

TEST(Io, AFiberThatStillLooksIsToldOfTheClosing) {
  const Channel<int> never(0);
  for (const bool beside_others : {false, true}) {
    for (const bool has_data : {false, true}) {
      run(
          [&] {
            Ends before = Ends::sockets();
            const Ends after = Ends::sockets();
            const int fd = before.give(0);
            TaskGroup group;
            group.go([&] {
              const std::string text = text_thrown_by<Error>([&] {
                if (beside_others) {
                  select(on_recv(never), on_readable(fd));
                } else {
                  await_readable(fd);
                }
              });
              EXPECT_TRUE(has(text, std::to_string(fd) + " was closed during a wait")) << text;
            });
            yield();  // it has looked, and gives way
            close_descriptor(fd);
            EXPECT_EQ(dup2(after[0], fd), fd);
            if (has_data) put(after[1], "x");
            group.wait();
            close(fd);
          },
          {.workers = 1});
    }
  }
}

TEST(Io, AnErrorIsToldToAThreadThatWaits) {
  on_fibers([] {
    Ends ends = Ends::sockets();
    const int fd = ends.give(0);
    std::string text;
    support::on_plain_threads(
        1, [&](int) { text = text_thrown_by<Error>([&] { await_readable(fd); }); },
        [&] { close_descriptor(fd); });
    // Closed before the wait, or during it.
    EXPECT_TRUE(has(text, "descriptor " + std::to_string(fd))) << text;
  });
}

// The file that is waited for lives on, in a copy of its descriptor, and has something to read.
TEST(Io, AReusedNumberHasNeitherTheWaitsNorTheEventsOfTheOneBefore) {
  on_fibers([] {
    Ends before = Ends::sockets();
    Ends after = Ends::sockets();
    const int fd = before.give(0);
    const int copy = dup(fd);
    TaskGroup group;
    group.go([&] {
      const std::string text = text_thrown_by<Error>([&] { await_readable(fd); });
      EXPECT_TRUE(has(text, std::to_string(fd) + " was closed during a wait")) << text;
    });
    until_waited_for(fd);
    close(fd);  // not close_descriptor()
    EXPECT_EQ(dup2(after[0], fd), fd);
    EXPECT_FALSE(await_readable_until(fd, now() + 100us));
    group.wait();  // that wait has ended the earlier one
    put(before[1], "of the file before");
    EXPECT_FALSE(await_readable_until(fd, now() + 1ms));
    put(after[1], "x");
    await_readable(fd);
    close_descriptor(fd);
    close(copy);
  });
}

TEST(Io, ReportsNameTheDescriptor) {
  run([] {
    const Ends ends = Ends::sockets();
    TaskGroup group;
    group.go([&] { await_readable(ends[0]); }, {.name = "reader"});
    until_waited_for(ends[0]);
    EXPECT_TRUE(has(dump(), "waits for recv on channel \"descriptor " + std::to_string(ends[0]) +
                                " is readable\""))
        << dump();
    put(ends[1], "x");
    group.wait();
  });
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

TEST(Io, TheThreadIsStartedByTheFirstWaitAndEndsWithTheScheduler) {
  const Ends ends = Ends::sockets();
  const std::size_t threads = support::threads();
  const std::size_t open = descriptors();
  {
    Scheduler scheduler({.workers = 1});
    const Channel<int> done(0);
    put(ends[1], "x");
    scheduler.go([&] {
      await_readable(ends[0]);  // at once
      done.send(0);
    });
    done.recv();
    EXPECT_EQ(support::threads(), threads + 1);
    take(ends[0]);
    scheduler.go([&] {
      const Channel<int> never(0);
      Selector any;
      any.add(on_readable(ends[0]));
      EXPECT_EQ(any.try_select(), std::nullopt);
      EXPECT_EQ(select(on_recv(never), on_readable(ends[0]), otherwise()), 2);
      done.send(0);
    });
    done.recv();
    EXPECT_EQ(support::threads(), threads + 1);  // a try begins no wait
    scheduler.go([&] {
      static_cast<void>(await_readable_until(ends[0], now() + 1ms));
      done.send(0);
    });
    done.recv();
    EXPECT_EQ(support::threads(), threads + 2);
    EXPECT_FALSE(await_readable_until(ends[0], now() + 1ms));  // by the same thread
    EXPECT_EQ(support::threads(), threads + 2);
  }
  EXPECT_TRUE(support::threads_become(threads));
  EXPECT_EQ(descriptors(), open);
  EXPECT_FALSE(await_readable_until(ends[0], now() + 1ms));
  EXPECT_TRUE(support::threads_become(threads));
  EXPECT_EQ(descriptors(), open);
}

TEST(Io, ALimitOnDescriptorsIsAnErrorThatSaysSo) {
#ifdef LEAT_ASAN
  GTEST_SKIP() << "UBSan looks at an object by way of a pipe, and is wrong where there is none";
#endif
  EXPECT_EQ(support::in_child([]() -> std::string {
              const Ends ends = Ends::sockets();
              rlimit limit = {};
              getrlimit(RLIMIT_NOFILE, &limit);
              const rlimit none = {static_cast<rlim_t>(ends[1]) + 1, limit.rlim_max};
              std::string text;
              run([&] {
                setrlimit(RLIMIT_NOFILE, &none);
                text = text_thrown_by<Error>(
                    [&] { static_cast<void>(await_readable_until(ends[0], now() + 1ms)); });
                setrlimit(RLIMIT_NOFILE, &limit);
                if (await_readable_until(ends[0], now() + 1ms)) text = "ready";
              });
              return has(text, "Too many open files; raise the limit on descriptors") ? "" : text;
            }),
            "");
}

TEST(Io, ALimitOnThreadsIsAnErrorThatSaysSo) {
  EXPECT_EQ(support::in_child([]() -> std::string {
              const Ends ends = Ends::sockets();
              support::allow_threads(false);
              const std::string text = text_thrown_by<Error>(
                  [&] { static_cast<void>(await_readable_until(ends[0], now() + 1h)); });
              return has(text, "cannot start the thread that waits for descriptors") ? "" : text;
            }),
            "");
}

TEST(Io, AChildProcessHasWaitsOfItsOwn) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer has no new threads after a fork with several";
  const Ends ends = Ends::sockets();
  const Channel<int> never(1);
  Selector parents;
  parents.add(on_readable(ends[0]));
  EXPECT_EQ(parents.select_until(now() + 1ms), std::nullopt);  // armed, by a thread that is there
  EXPECT_EQ(support::in_child([&]() -> std::string {
              const std::string text =
                  text_thrown_by<std::logic_error>([&] { parents.try_select(); });
              if (!has(text, "make another one in the child")) return text;
              run([&] {
                TaskGroup group;
                group.go([&] { await_readable(ends[0]); });
                until_waited_for(ends[0]);
                put(ends[1], "x");
                group.wait();
              });
              parents.clear();
              take(ends[0]);
              return "";
            }),
            "");
  put(ends[1], "x");
  EXPECT_EQ(parents.select(), 0U);
}

}  // namespace io_errors_test
}  // namespace leat
