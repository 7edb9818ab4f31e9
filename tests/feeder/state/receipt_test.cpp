// Receipts: a batch counts by commit(), whatever has become of its slot, its epoch and its
// prefetcher meanwhile.
#include "leat/feeder/receipt.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
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

// The state lists an epoch as long as one of its batches has a receipt, wherever the consumer is.
TEST_P(Receipts, OfAnEpochThatIsOverCountToo) {
  in_place([] {
    NumbersFeed feed({.size = 12}, {.batch_size = 4, .seed = 5});
    std::vector<Receipt> receipts;
    for (int batch = 0; batch < 3; ++batch) receipts.push_back(take(feed));  // of epoch 0: all
    EXPECT_FALSE(feed.next().has_value());
    receipts[1].commit();  // after the last batch
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{1, 2}}));
    for (Lease& batch : feed.epoch(1)) {  // left early
      receipts.push_back(batch.receipt());
      break;
    }
    for (Lease& batch : feed.epoch(2)) static_cast<void>(batch);
    feed.epoch(3).begin()->release();
    const std::string before = feed.state();
    EXPECT_EQ(counted(before, 0), (Intervals{{1, 2}}));
    EXPECT_EQ(counted(before, 1), Intervals{});
    EXPECT_EQ(counted(before, 2), (Intervals{{0, 3}}));
    EXPECT_EQ(counted(before, 3), (Intervals{{0, 1}}));

    // A run that resumes there has in each epoch what is missing.
    PrefetcherOptions then = feed.options;
    then.resume = before;
    {
      Prefetcher resumed(feed.data, gpu::open("host"), then);
      ASSERT_EQ(State::parse(before).next_epoch(), 0U);
      const Batches first = rest_of(resumed);
      EXPECT_EQ(first, (Batches{feed.want(0, 0), feed.want(0, 2)}));
      EXPECT_EQ(rest_of(resumed), feed.want_epoch(1));
      EXPECT_EQ(rest_of(resumed), Batches{});
      EXPECT_EQ(rest_of(resumed), (Batches{feed.want(3, 1), feed.want(3, 2)}));
    }

    receipts[3].commit();
    EXPECT_EQ(counted(feed.state(), 1), (Intervals{{0, 1}}));
    receipts[0].commit();
    receipts[2].commit();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 3}}));
    feed.epoch(4).begin()->release();  // now nothing holds the epochs before
    const State after = State::parse(feed.state());
    ASSERT_EQ(after.epochs.size(), 1U);
    EXPECT_EQ(after.epochs[0].epoch, 4U);
  });
}

TEST_P(Receipts, OfADroppedReceiptTheEpochIsForgottenAsOfAnAbandonedLease) {
  in_place([] {
    NumbersFeed feed({.size = 12});
    Receipt receipt = take(feed);
    feed.epoch(1).begin()->release();
    EXPECT_EQ(State::parse(feed.state()).next_epoch(), 0U);
    receipt = Receipt();
    feed.epoch(2).begin()->release();
    EXPECT_EQ(State::parse(feed.state()).next_epoch(), 2U);
  });
}

TEST_P(Receipts, TakeTheCountingFromTheLeaseHoweverItEnds) {
  in_place([] {
    NumbersFeed feed({.size = 40}, {.batch_size = 4, .max_leases = 4});
    std::vector<Receipt> receipts;
    const auto lease = [&] {
      Lease one = std::move(*feed.next());
      receipts.push_back(one.receipt());
      return one;
    };
    lease().release();
    lease().abandon();
    { const Lease ends = lease(); }
    const auto train = [&] {
      const Lease unwound = lease();
      throw std::domain_error("loss is not a number");
    };
    EXPECT_THROW(train(), std::domain_error);
    Lease moved = lease();
    Lease held = std::move(moved);
    held = lease();
    EXPECT_EQ(counted(feed.state(), 0), Intervals{});
    Receipt first = std::move(receipts[0]);
    receipts[1] = std::move(first);  // drops that of batch 1
    EXPECT_EQ(receipts[1].index(), 0U);
    for (Receipt& one : receipts) one.commit();  // also that of the lease that is held
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 1}, {2, 6}}));
    held.release();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{0, 1}, {2, 6}}));
  });
}

TEST_P(Receipts, AreGivenOnceByALeaseThatHasABatch) {
  in_place([] {
    NumbersFeed feed({.size = 8});
    Lease lease = std::move(*feed.next());
    Receipt receipt = lease.receipt();
    expect_throws<std::logic_error>([&] { static_cast<void>(lease.receipt()); },
                                    {"has given a receipt already", "batch 0 of epoch 0"});
    Lease to = std::move(lease);
    expect_throws<std::logic_error>([&] { static_cast<void>(to.receipt()); }, {"already"});
    to.release();
    expect_throws<std::logic_error>([&] { static_cast<void>(to.receipt()); }, {"lease is empty"});
    EXPECT_TRUE(static_cast<bool>(receipt));
    receipt.commit();
    EXPECT_FALSE(static_cast<bool>(receipt));
    expect_throws<std::logic_error>([&] { static_cast<void>(receipt.epoch()); },
                                    {"receipt is empty"});
    expect_throws<std::logic_error>([&] { static_cast<void>(Receipt().index()); },
                                    {"receipt is empty"});
  });
}

TEST_P(Receipts, AreAddedToAStateAsIfCommitted) {
  in_place([] {
    NumbersFeed feed({.size = 12}, {.batch_size = 4, .max_leases = 2});
    std::vector<Receipt> receipts;
    receipts.push_back(take(feed));
    static_cast<void>(take(feed));
    feed.next()->release();
    EXPECT_FALSE(feed.next().has_value());
    receipts.push_back(take(feed));  // of epoch 1
    Lease lease = std::move(*feed.next());
    receipts.push_back(lease.receipt());  // the slot is still held
    const std::string before = feed.state();
    EXPECT_EQ(feed.state({}), before);
    const std::string with = state_with(feed, receipts);
    EXPECT_EQ(counted(with, 0), (Intervals{{0, 1}, {2, 3}}));
    EXPECT_EQ(counted(with, 1), (Intervals{{0, 2}}));
    EXPECT_EQ(feed.state(), before) << "it has committed";
    const std::array twice = {&std::as_const(receipts[0]), &std::as_const(receipts[0])};
    EXPECT_EQ(counted(feed.state(twice), 0), (Intervals{{0, 1}, {2, 3}}));
    for (Receipt& one : receipts) one.commit();
    EXPECT_EQ(feed.state(), with);

    const Receipt empty;
    const std::array<const Receipt*, 1> of_empty = {&empty};
    const std::array<const Receipt*, 1> of_null = {nullptr};
    for (const auto& one : {of_empty, of_null}) {
      expect_throws<std::invalid_argument>([&] { static_cast<void>(feed.state(one)); },
                                           {"an empty receipt"});
    }
    NumbersFeed other({.size = 12});
    const Receipt foreign = take(other);
    const std::array<const Receipt*, 1> of_other = {&foreign};
    expect_throws<std::invalid_argument>([&] { static_cast<void>(feed.state(of_other)); },
                                         {"of another prefetcher", "batch 0 of epoch 0"});
  });
}

TEST_P(Receipts, OutliveThePrefetcher) {
  in_place([] {
    const Numbers data({.size = 12});
    std::vector<Receipt> receipts;
    {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
      receipts.push_back(take(feed));
      receipts.push_back(take(feed));
    }
    EXPECT_EQ(receipts[1].index(), 1U);
    receipts[0].commit();
    receipts[1] = Receipt();
  });
}

// The ranks take each epoch's batches from one pass, which both have to leave.
TEST_P(Receipts, OfRanksThatShareAnEpoch) {
  in_place([] {
    const Numbers data({.size = 24});
    const PrefetcherOptions options = {.batch_size = 4, .sharing = Sharing::kDynamic};
    Prefetcher feed(data, open_devices(2), options);
    std::vector<Receipt> of_ranks;
    for (const std::size_t rank : {0U, 1U}) of_ranks.push_back(take(feed.rank(rank)));
    const std::uint64_t first = of_ranks[0].index();
    const std::uint64_t second = of_ranks[1].index();
    EXPECT_NE(first, second);
    for (Lease& batch : feed.rank(0).epoch(1)) {
      EXPECT_EQ(batch.epoch(), 1U);
      break;
    }
    of_ranks[1].commit();
    EXPECT_EQ(counted(feed.state(), 0), (Intervals{{second, second + 1}}));
    for (Lease& batch : feed.rank(1).epoch(1)) {
      EXPECT_EQ(batch.epoch(), 1U);
      break;
    }
    IntervalSet both;
    both.add(first);
    both.add(second);
    const std::array<const Receipt*, 1> left = {of_ranks.data()};
    EXPECT_EQ(counted(feed.state(left), 0), both.intervals());
    of_ranks[0].commit();
    EXPECT_EQ(counted(feed.state(), 0), both.intervals());
  });
}
}  // namespace receipt_test
}  // namespace leat::feeder
