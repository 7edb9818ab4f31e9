#include "leat/csp/bell.h"

#include <gtest/gtest.h>

namespace leat {
namespace bell_test {

TEST(Bell, RemembersRingsOnceUntilOneIsHeard) {
  Bell bell("bell");
  EXPECT_FALSE(bell.try_wait());
  bell.ring();
  bell.ring();  // does not wait
  EXPECT_TRUE(bell.try_wait());
  EXPECT_FALSE(bell.wait_until(now()));
  bell.ring();
  bell.wait();
  bool is_heard = false;
  bell.ring();
  EXPECT_EQ(select(otherwise(), bell.on_ring([&] { is_heard = true; })), 1);
  EXPECT_TRUE(is_heard);
  EXPECT_FALSE(bell.try_wait());
}

}  // namespace bell_test
}  // namespace leat
