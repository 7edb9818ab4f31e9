#include "leat/csp/unique_function.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace leat {
namespace {

static_assert(!std::is_copy_constructible_v<UniqueFunction<void()>>);
static_assert(!std::is_constructible_v<UniqueFunction<int()>, void (*)(int)>);

TEST(UniqueFunction, CallsAMoveOnlyCallableWithMoveOnlyArguments) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>, int&)> add =
      [base = std::make_unique<int>(1)](std::unique_ptr<int> x, int& calls) {
        ++calls;
        return std::make_unique<int>(*base + *x);
      };
  int calls = 0;
  EXPECT_EQ(*add(std::make_unique<int>(2), calls), 3);
  EXPECT_EQ(*add(std::make_unique<int>(5), calls), 6);
  EXPECT_EQ(calls, 2);
}

TEST(UniqueFunction, IsEmptyByDefaultAndAfterAMove) {
  UniqueFunction<int()> empty;
  EXPECT_FALSE(empty);
  UniqueFunction<int()> full = [] { return 1; };
  EXPECT_TRUE(full);
  empty = std::move(full);
  EXPECT_TRUE(empty);
  EXPECT_FALSE(full);  // NOLINT(bugprone-use-after-move): that is the promise
  EXPECT_EQ(empty(), 1);
}

TEST(UniqueFunction, DestroysItsCallableOnce) {
  const auto shared = std::make_shared<int>(0);
  {
    UniqueFunction<void()> first = [shared] {};
    UniqueFunction<void()> second = std::move(first);
    EXPECT_EQ(shared.use_count(), 2);
    second = {};
    EXPECT_EQ(shared.use_count(), 1);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(UniqueFunction, DiscardsAResultWhereNoneIsAskedFor) {
  int calls = 0;
  UniqueFunction<void()> f = [&] { return ++calls; };
  f();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace leat
