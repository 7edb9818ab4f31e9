// Descriptors that are closed, and whose numbers are used again, while fibers wait for them.
//
// LEAT_TEST_CLOSES: how many, in place of some hundred.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/base/random.h"
#include "leat/csp/error.h"
#include "leat/csp/io.h"
#include "leat/csp/task_group.h"
#include "tests/csp/io/ends.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat {
namespace io_stress_test {

using support::Ends;
using support::on_each_worker_count;
using support::rounds;

int closes() {
  const char* const asked = std::getenv("LEAT_TEST_CLOSES");
  return asked != nullptr ? std::atoi(asked) : rounds(900);
}

// A pair of sockets with a fiber that reads and one that writes, in which others put another pair.
class Place {
 public:
  // Strict: nothing runs between a fiber's look at ends_ and its wait.
  void begin(TaskGroup& group, bool strict) {
    strict_ = strict;
    group.go([this] { use(0); });
    group.go([this] { use(1); });
  }
  void replace(std::uint64_t random) {
    const std::lock_guard guard(lock_);
    close_ends(random);
    Ends ends = Ends::sockets();
    ends_ = {ends.give(0), ends.give(1)};
    ++pair_;
  }
  void end() {
    const std::lock_guard guard(lock_);
    close_ends(0);
    pair_ = kEnd;
  }
  [[nodiscard]] bool is_used() {
    const std::lock_guard guard(lock_);
    return used_ > 0;
  }

 private:
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};

  void close_ends(std::uint64_t random) {
    if (ends_[0] < 0) return;
    was_ready_.emplace_back();
    for (const std::size_t end : {random % 2, 1 - random % 2}) {
      pollfd one = {ends_[end], static_cast<short>(end == 0 ? POLLIN : POLLOUT), 0};
      was_ready_.back()[end] = poll(&one, 1, 0) > 0;
      close_descriptor(ends_[end]);
    }
  }

  void use(std::size_t end) {
    for (;;) {
      std::uint64_t pair = 0;
      int fd = -1;
      {
        const std::lock_guard guard(lock_);
        if (pair_ == kEnd) return;
        pair = pair_;
        fd = ends_[end];
      }
      try {
        end == 0 ? await_readable(fd) : await_writable(fd);
      } catch (const Error& error) {
        const std::string expected = "descriptor " + std::to_string(fd);
        EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
        continue;
      }
      const std::lock_guard guard(lock_);
      if (pair_ != pair) {  // closed after it was ready; or before the wait, if not strict
        EXPECT_TRUE(!strict_ || was_ready_[pair - 1][end]) << "woken by another's event";
        continue;
      }
      if (end == 0) {
        EXPECT_NE(support::take(fd), "EAGAIN") << "woken by another's event";
        ++used_;
      } else if (write(fd, "x", 1) < 0) {
        ADD_FAILURE() << "woken by another's event";
      } else if (used_ % 64 == 0) {
        support::fill(fd);  // so that the writer has to wait now and then
      }
    }
  }

  std::mutex lock_;  // fibers do not wait while they hold it
  std::array<int, 2> ends_ = {-1, -1};
  std::uint64_t pair_ = 0;
  bool strict_ = false;
  std::vector<std::array<bool, 2>> was_ready_;  // when they were closed, by pair
  std::uint64_t used_ = 0;
};

TEST(IoStress, RandomClosesEndEveryWaitAndNoOther) {
  on_each_worker_count([](SchedulerOptions options) {
    options.deadlock_after = std::chrono::hours(1);
    run(
        [&] {
          std::array<Place, 8> places;
          const int each = closes() / 9;  // each of three times closes two
          TaskGroup group;
          for (Place& place : places) {
            place.replace(0);
            place.begin(group, options.workers == 1);
          }
          // Now, because on a busy machine the closers may leave no pair for long enough.
          for (Place& place : places) {
            while (!place.is_used()) yield();
          }
          const auto close_some = [&](std::uint64_t seed) {
            for (int i = 0; i < each / 2; ++i) {
              seed += kRandomStep;
              const std::uint64_t random = mix(seed);
              places[random % places.size()].replace(random >> 32U);
              for (std::uint64_t k = random >> 62U; k > 0; --k) yield();
            }
          };
          support::on_plain_threads(
              options.workers == 1 ? 0 : 1, [&](int) { close_some(1); },
              [&] {
                TaskGroup closers;
                closers.go([&] { close_some(2); });
                closers.go([&] { close_some(3); });
                closers.wait();
              });
          for (Place& place : places) place.end();
          group.wait();
        },
        options);
  });
}

}  // namespace io_stress_test
}  // namespace leat
