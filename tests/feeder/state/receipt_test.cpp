// Receipts: a batch counts by commit(), whatever has become of its slot, its epoch and its
// prefetcher meanwhile.
#include "leat/feeder/receipt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace receipt_test {

using support::kPlaces;
using support::Numbers;
using support::NumbersView;
using support::place_title;

static_assert(std::is_nothrow_move_constructible_v<Receipt>);
static_assert(std::is_nothrow_move_assignable_v<Receipt>);
static_assert(!std::is_copy_constructible_v<Receipt> && !std::is_copy_assignable_v<Receipt>);

using Intervals = std::vector<Interval>;

// The batches of an epoch that count; empty if the epoch is not in the state.
Intervals counted(const std::string& state, std::uint64_t epoch) {
  for (const EpochReleases& one : State::parse(state).epochs) {
    if (one.epoch == epoch) return one.batches.intervals();
  }
  return {};
}

// Gives the slot back, and keeps the receipt.
Receipt take(Feed& feed) {
  Lease lease = std::move(*feed.next());
  return lease.receipt();
}
Receipt take(Prefetcher& feed) { return take(feed.rank(0)); }

std::string state_with(const Prefetcher& feed, const std::vector<Receipt>& receipts) {
  std::vector<const Receipt*> pointers;
  for (const Receipt& one : receipts) pointers.push_back(&one);
  return feed.state(pointers);
}

class Receipts : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, Receipts, testing::ValuesIn(kPlaces), place_title);

TEST_P(Receipts, CountByCommitAndHoldNoSlot) {
  in_place([] {
    NumbersFeed feed({.size = 40}, {.batch_size = 4, .max_leases = 1});
    std::vector<Receipt> receipts;
    for (std::uint64_t batch = 0; batch < 9; ++batch) {
      receipts.push_back(take(feed));
      EXPECT_EQ(receipts.back().epoch(), 0U);
      EXPECT_EQ(receipts.back().index(), batch);
    }
    EXPECT_EQ(counted(feed.state(), 0), Intervals{}) << "released, but not committed";
    receipts[3].commit();
    receipts[3].commit();  // without effect
    receipts[4] = Receipt();
    receipts[0].commit();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 1}, {3, 4}}));
    feed.next()->release();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 1}, {3, 4}, {9, 10}}));
    receipts.clear();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 1}, {3, 4}, {9, 10}}));

    PrefetcherOptions then = feed.options;
    then.resume = feed.state();
    Prefetcher resumed(feed.data, gpu::open("host"), then);
    std::vector<std::uint64_t> indices;
    for (Lease& batch : resumed.epoch(0)) indices.push_back(batch.index());
    EXPECT_EQ(indices, (std::vector<std::uint64_t>{1, 2, 4, 5, 6, 7, 8}));
  });
}
}  // namespace receipt_test
}  // namespace leat::feeder
