// Uses of a scheduler that cannot work are told.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/unique_function.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/child.h"

namespace leat {
namespace misuse_test {

TEST(Misuse, AnEmptyFunctionIsNoFiber) {
  run([] { EXPECT_THROW(go(UniqueFunction<void()>()), std::invalid_argument); });
  Scheduler scheduler({.workers = 1});
  EXPECT_THROW(scheduler.go(UniqueFunction<void()>()), std::invalid_argument);
  TaskGroup group(scheduler);
  EXPECT_THROW(group.go(UniqueFunction<void()>()), std::invalid_argument);
  scheduler.go([] {});
  scheduler.join();
}

TEST(MisuseDeathTest, AFiberThatEndsItsThreadIsNamed) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer has a pthread_exit() of its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run(
                   [] {
                     TaskGroup group;
                     group.go([] { pthread_exit(nullptr); }, {.name = "leaver"});
                     group.wait();
                   },
                   {.workers = 1}),
               "pthread_exit.* ends the thread of fiber [0-9]+ \"leaver\"");
}

TEST(Misuse, ASchedulerOfTheParentIsRefusedInAForkedChild) {
  auto scheduler = std::make_optional<Scheduler>(SchedulerOptions{.workers = 2});
  const Channel<int> never(0);
  scheduler->go([never] { static_cast<void>(never.recv()); });
  auto group = std::make_optional<TaskGroup>(*scheduler);
  group->go([never] { static_cast<void>(never.recv()); });
  const std::string parent = std::to_string(getpid());
  EXPECT_EQ(support::in_child([&]() -> std::string {
              for (const std::string& text :
                   {support::text_thrown_by<std::logic_error>([&] { scheduler->go([] {}); }),
                    support::text_thrown_by<std::logic_error>([&] { scheduler->join(); }),
                    support::text_thrown_by<std::logic_error>([&] { group->go([] {}); }),
                    support::text_thrown_by<std::logic_error>([&] { group->wait(); })}) {
                if (text.find("of process " + parent + " is used in its child, process " +
                              std::to_string(getpid())) == std::string::npos) {
                  return text;
                }
              }
              group.reset();
              scheduler.reset();
              return "";
            }),
            "");
  group.reset();
}

}  // namespace misuse_test
}  // namespace leat
