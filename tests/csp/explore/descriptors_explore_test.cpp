// The bridge from the kernel's events to waits, under every schedule: csp/io/descriptor_table.h.
#include <gtest/gtest.h>

#include "tests/csp/explore/descriptors.h"
#include "tests/csp/explore/holds.h"

namespace leat {
namespace explore_test {

using namespace scenarios;

TEST(ExploreEvery, DescriptorsAreWaitedForInBothDirections) {
  expect_holds(both_directions, every(1, 1));
  expect_holds(both_directions, some(2));
}

TEST(ExploreEvery, AnEventOfAnEarlierWaitEndsNoOther) {
  expect_holds(event_of_an_earlier_wait, every(1, 1));
  expect_holds(event_of_an_earlier_wait, some(2));
}

TEST(ExploreEvery, AWaitThatIsDestroyedGetsNoEvent) {
  expect_holds(destroyed_while_armed, every(1, 1));
  expect_holds(destroyed_while_armed, some(2));
}

TEST(ExploreEvery, AReusedNumberHasNoEventOfTheFileBefore) {
  expect_holds(reused_number, every(1, 1));
  expect_holds(reused_number, some(2));
}

TEST(ExploreEvery, ADescriptorThatIsClosedHangsNobody) {
  expect_holds(closed_under_way, every(1, 1));
  expect_holds(closed_under_way, some(2));
}

}  // namespace explore_test
}  // namespace leat
