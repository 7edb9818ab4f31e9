// Pages of the process's own: where they begin, what they hold, where they lie.
#include "leat/gpu/backend/page_mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "leat/gpu/backend/page_placement.h"
#include "tests/support/memory.h"

namespace leat::gpu {
namespace page_mapping_test {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t rest(const PageMapping& pages, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pages.data()) % alignment;
}

TEST(PageMapping, AreWholeAlignedAndZero) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4'096}, std::size_t{4'097}, kMiB,
                                  2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 7 * kMiB + 123}) {
    const PageMapping pages(bytes, -1);
    EXPECT_EQ(pages.size(), (bytes + 4'095) / 4'096 * 4'096) << bytes;
    EXPECT_EQ(rest(pages, pages.size() >= PageMapping::kHugePage ? PageMapping::kHugePage : 4'096),
              0U)
        << bytes;
    const std::span<std::byte> all(pages.data(), pages.size());
    EXPECT_TRUE(std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0}; })) << bytes;
    std::ranges::fill(all, std::byte{0x5A});  // and may be written to the end
  }
}

TEST(PageMapping, AreAllThereOnceMade) {
  constexpr std::size_t kBytes = 32 * kMiB;
  PageMapping(kBytes, -1);  // warm
  const std::size_t before = support::resident_bytes();
  const PageMapping pages(kBytes, -1);
  EXPECT_GE(support::resident_bytes() - before, kBytes * 9 / 10);
}

TEST(PageMapping, AreGivenBack) {
  for (int i = 0; i < 200; ++i) PageMapping(16 * kMiB, -1);  // 3 GiB in all
  PageMapping first(kMiB, -1);
  PageMapping second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): it says what it then is
  EXPECT_EQ(first.size(), 0U);
  first = std::move(second);
  EXPECT_EQ(first.size(), kMiB);
}

TEST(PageMapping, SayWhereTheyLie) {
  const PageMapping anywhere(4 * kMiB, -1);
  const PagePlacement placement = placement_of(anywhere);
  EXPECT_EQ(placement.bytes, 4 * kMiB);
  EXPECT_EQ(placement.numa_node, -1);
  EXPECT_EQ(placement.node_bytes, placement.bytes);
  EXPECT_LE(placement.huge_bytes, placement.bytes);
}

// Node 0 is everywhere that a kernel tells of nodes.
TEST(PageMapping, LieOnTheNodeAskedForAndThatIsVerified) {
  const PageMapping pages(4 * kMiB, 0);
  const PagePlacement placement = placement_of(pages);
  if (!placement.node_known) GTEST_SKIP() << "this kernel does not tell on which node a page is";
  EXPECT_EQ(placement.numa_node, 0);
  EXPECT_EQ(placement.node_bytes, placement.bytes);
}

TEST(PageMapping, OfANodeThatIsNotThereLieElsewhereAndSaySo) {
  for (const int node : {63, 1'023, 100'000}) {
    const PageMapping pages(kMiB, node);
    std::ranges::fill(std::span(pages.data(), pages.size()), std::byte{1});
    EXPECT_EQ(placement_of(pages).numa_node, node);
    EXPECT_EQ(placement_of(pages).node_bytes, 0U);
  }
}

TEST(PageMapping, MoreThanTheMachineHasAreRefused) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {std::size_t{1} << 50, kMost / 2 + 1, kMost - 1, kMost}) {
    EXPECT_THROW(PageMapping(bytes, -1), std::bad_alloc) << bytes;
  }
}

}  // namespace page_mapping_test
}  // namespace leat::gpu
