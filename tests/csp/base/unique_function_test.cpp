#include "leat/csp/base/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace leat {
namespace unique_function_test {

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

/// Says where it is; counts how many of it there are.
template <std::size_t kBytes, std::size_t kAlign = alignof(void*), bool kMovesNoexcept = true>
struct alignas(kAlign) Callable {
  explicit Callable(int& count) : alive(&count) { ++*alive; }
  Callable(Callable&& other) noexcept(kMovesNoexcept) : alive(other.alive) { ++*alive; }
  Callable(const Callable&) = delete;
  Callable& operator=(Callable&&) = delete;
  Callable& operator=(const Callable&) = delete;
  ~Callable() { --*alive; }
  const void* operator()() const { return this; }

  int* alive;
  std::array<std::byte, kBytes - sizeof(int*)> rest{};
};

using WhereIsIt = UniqueFunction<const void*()>;

bool is_inside(WhereIsIt& f) {
  const auto* const at = static_cast<const std::byte*>(f());
  const auto* const begin = reinterpret_cast<const std::byte*>(&f);
  return !std::less<>()(at, begin) && std::less<>()(at, begin + sizeof(f));
}

/// Moved twice and destroyed, it is there once, then not at all.
template <class F>
void expect_kept(bool inside) {
  int alive = 0;
  {
    WhereIsIt first = F(alive);
    EXPECT_EQ(is_inside(first), inside);
    WhereIsIt second = std::move(first);
    WhereIsIt third;
    third = std::move(second);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(is_inside(third), inside);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(third()) % alignof(F), 0U);
    third = F(alive);  // in the place of another
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(UniqueFunction, KeepsASmallCallableInside) {
  expect_kept<Callable<2 * sizeof(void*)>>(true);
  expect_kept<Callable<WhereIsIt::kInline>>(true);
}

TEST(UniqueFunction, AllocatesForACallableThatIsLargeOrOveralignedOrMayThrowWhenMoved) {
  expect_kept<Callable<WhereIsIt::kInline + sizeof(void*)>>(false);
  expect_kept<Callable<64, 64>>(false);
  expect_kept<Callable<2 * sizeof(void*), alignof(void*), false>>(false);
}

TEST(UniqueFunction, MovesTheBytesOfACallableThatIsNothingElse) {
  int a = 1;
  int b = 2;
  UniqueFunction<int(int)> first = [&a, &b, c = 3](int d) { return a + b + c + d; };
  UniqueFunction<int(int)> second = std::move(first);
  a = 10;
  EXPECT_EQ(second(4), 19);
}

}  // namespace unique_function_test
}  // namespace leat
