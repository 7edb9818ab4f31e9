// Composed datasets in a prefetcher: order, ranks, resume, errors, packing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/compose.h"
#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "tests/feeder/compose/composed.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace composed_prefetch_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

using List = std::vector<std::int64_t>;

List values_in(Lease& batch) {
  const auto* const values = batch["value"].data<std::int64_t>();
  return {values, values + batch.size()};
}

List values_of_epoch(Prefetcher& feed, std::uint64_t epoch) {
  List all;
  for (Lease& batch : feed.epoch(epoch)) {
    const List values = values_in(batch);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

class Composed : public testing::Test {
 protected:
  const Values a{30, 0, "a"};
  const Values b{50, 100, "b"};
  const Values c{20, 200, "c"};
  const Mixture mixture{{{a, .5}, {b, .3}, {c, .2}},
                        {.samples = 64, .stages = {{1, {.1, .1, .8}}}}};
};

// The shuffled order, the default, would undo the mixture's.
TEST_F(Composed, TheOrderOfAMixtureIsItsOwnWhateverTheOptionSays) {
  in_virtual_time([&] {
    const Map mapped(mixture, [](Sample&) {});
    for (const Dataset* const data :
         {static_cast<const Dataset*>(&mixture), static_cast<const Dataset*>(&mapped)}) {
      for (const Order order : {Order::kShuffled, Order::kSequential}) {
        Prefetcher feed(*data, gpu::open("host"),
                        {.batch_size = 10, .workers = 3, .order = order, .seed = 7});
        for (const std::uint64_t epoch : {0U, 1U, 2U}) {
          EXPECT_EQ(values_of_epoch(feed, epoch), values_of(mixture, 7, epoch));
        }
      }
    }
    EXPECT_NE(values_of(mixture, 7), values_of(mixture, 8)) << "by the seed of the run";
  });
}

TEST_F(Composed, RanksGetSlicesOfTheMixture) {
  in_virtual_time([&] {
    const List whole = values_of(mixture, 3, 1);
    Prefetcher feed(mixture, {gpu::open_host({}, 0), gpu::open_host({}, 1)},
                    {.batch_size = 16, .seed = 3, .check_slots = CheckSlots::kYes});
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::size_t step = 0;
      for (Lease& batch : feed.rank(rank).epoch(1)) {
        const auto first = whole.begin() + static_cast<std::ptrdiff_t>(16 * step++ + 8 * rank);
        EXPECT_EQ(values_in(batch), List(first, first + 8));
      }
      EXPECT_EQ(step, 4U);
    }
  });
}

TEST_F(Composed, ARunThatResumesOnOtherRanksAndWorkersKeepsEachPassComplete) {
  in_virtual_time([&] {
    std::map<std::int64_t, int> visits;
    const auto note = [&](Lease& batch) {
      for (const std::int64_t value : values_in(batch)) ++visits[value];
    };
    std::string state;
    {
      Prefetcher feed(mixture, gpu::open("host"), {.batch_size = 8, .workers = 2, .seed = 3});
      for (Lease& batch : feed.epoch(0)) note(batch);
      for (int i = 0; i < 3; ++i) {
        std::optional<Lease> batch = feed.next();
        note(*batch);
      }
      state = feed.state();
    }
    Prefetcher feed(mixture, {gpu::open_host({}, 0), gpu::open_host({}, 1), gpu::open_host({}, 2)},
                    {.batch_size = 8, .workers = 5, .seed = 3, .resume = state});
    EXPECT_EQ(State::parse(state).next_epoch(), 1U);
    for (const std::uint64_t epoch : {1U, 2U, 3U}) {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (Lease& batch : feed.rank(rank).epoch(epoch)) note(batch);
      }
    }
    for (std::size_t part = 0; part < 3; ++part) {
      const std::uint64_t size = std::vector<std::uint64_t>{30, 50, 20}[part];
      std::map<int, std::uint64_t> by_visits;
      std::uint64_t all = 0;
      for (std::uint64_t i = 0; i < size; ++i) {
        const int seen = visits[static_cast<std::int64_t>(100 * part + i)];
        ++by_visits[seen];
        all += static_cast<std::uint64_t>(seen);
      }
      EXPECT_EQ(by_visits[static_cast<int>(all / size) + 1], all % size) << part;
      EXPECT_EQ(by_visits[static_cast<int>(all / size)], size - all % size) << part;
    }
  });
}

TEST_F(Composed, ARunResumesOnTheSameCompositionOnlyUnlessToldTo) {
  in_virtual_time([&] {
    const PrefetcherOptions options = {.batch_size = 8, .seed = 3};
    std::string state;
    {
      Prefetcher feed(mixture, gpu::open("host"), options);
      for (int i = 0; i < 3; ++i) feed.next()->release();
      state = feed.state();
    }
    const Mixture longer({{a, .5}, {b, .3}, {c, .2}},
                         {.samples = 64, .stages = {{1, {.1, .1, .8}}, {5, {1, 1, 1}}}});
    PrefetcherOptions then = options;
    then.resume = state;
    expect_throws<Error>(
        [&] { const Prefetcher feed(longer, gpu::open("host"), then); },
        {"other files than those of mixture", "or how it is composed", "State::dataset"});
    State accepted = State::parse(state);
    accepted.dataset = 0;
    then.resume = accepted.text();
    Prefetcher feed(longer, gpu::open("host"), then);
    std::optional<Lease> batch = feed.next();
    EXPECT_EQ(values_in(*batch)[0], values_of(mixture, 3)[24]);
  });
}

TEST_F(Composed, AnErrorNamesPartAndNumberInIt) {
  in_virtual_time([&] {
    Values bad(20, 300, "bad");
    bad.on_read = [](std::uint64_t index, Sample&) {
      if (index == 4) throw Error("it is damaged");
    };
    const Concat all({a, bad});
    const std::string where = "number 4 of part 1, \"bad\": it is damaged";
    Prefetcher strict(all, gpu::open("host"), {.batch_size = 8, .order = Order::kSequential});
    expect_throws<SampleError>([&] { static_cast<void>(values_of_epoch(strict, 0)); },
                               {"sample 34 of dataset \"concat\" (epoch 0, batch 4): " + where});
    Prefetcher lenient(all, gpu::open("host"), {.batch_size = 8, .read_failures = {.count = 1}});
    EXPECT_EQ(values_of_epoch(lenient, 0).size(), 49U);
    EXPECT_EQ(lenient.failed_samples().at(0).sample, 34U);
    EXPECT_EQ(lenient.failed_samples().at(0).error, where);
  });
}

TEST_F(Composed, StagesNamePartAndNumberInIt) {
  in_virtual_time({.workers = 1}, [&] {
    Values slow(20, 300, "slow");
    slow.on_read = [](std::uint64_t, Sample&) { sleep_for(1s); };
    const Concat all({a, slow});
    Prefetcher feed(all, gpu::open("host"), {.batch_size = 30, .order = Order::kSequential});
    EXPECT_TRUE(feed.next().has_value());
    sleep_for(2500ms);
    expect_contains(feed.stages(), {"now sample 32 (number 2 of part 1, \"slow\")"});
  });
}

TEST_F(Composed, TheExampleOfThePage) {
  const Values web(1000, 0, "web");
  const Values books(50, 2000, "books");
  const auto device = gpu::open("host");
  // [mixture]
  const auto parts = split(web, {.9, .1});  // the same two parts in each epoch of each run
  const Dataset& test = parts[1];
  const Mixture train({{parts[0], .7}, {books, .3}},
                      {.samples = 256 * 4, .stages = {{2, {.5, .5}}}});  // half and half later on
  Prefetcher feed(train, device, {.batch_size = 256, .seed = 7});
  // [/mixture]
  EXPECT_EQ(test.size(), 100U);
  for (const auto& [epoch, of_books] : {std::pair{1U, 307}, {2U, 512}}) {
    const List values = values_of_epoch(feed, epoch);
    EXPECT_EQ(std::ranges::count_if(values, [](auto value) { return value >= 2000; }), of_books);
  }
}

TEST(ComposedPacking, OfWhatVariesByEpochIsRefusedWithWaysOut) {
  const Rows rows(4, {1, 2, 3, 4}, 7);
  const Mixture mixture({{rows, 1}});
  const std::vector<double> weights(4, 1.0);
  const Weighted weighted(rows, weights);
  const Subset subset(mixture, {0, 1});
  for (const Dataset* const data :
       {static_cast<const Dataset*>(&mixture), static_cast<const Dataset*>(&weighted),
        static_cast<const Dataset*>(&subset)}) {
    expect_throws<std::invalid_argument>(
        [&] {
          const Prefetcher feed(*data, gpu::open("host"), {.batch_size = 8, .packing = Packing{}});
        },
        {std::string(data->name()), "cannot be packed", "different numbers of elements",
         "pack a Concat", "windows of a fixed length"});
  }
}

TEST(ComposedPacking, AConcatWithAPartTwiceIsPacked) {
  in_virtual_time([] {
    const Rows ones(3, {3, 1}, 1);
    const Rows twos(4, {2}, 2);
    const Concat all({ones, twos, ones});
    Prefetcher feed(all, gpu::open("host"),
                    {.batch_size = 16, .order = Order::kSequential, .packing = Packing{}});
    std::optional<Lease> batch = feed.next();
    const auto* const bytes = (*batch)["bytes"].data<std::uint8_t>();
    EXPECT_EQ(std::vector<int>(bytes, bytes + 10),
              (std::vector<int>{1, 1, 1, 1, 2, 2, 1, 1, 1, 1}));
  });
}

}  // namespace composed_prefetch_test
}  // namespace leat::feeder
