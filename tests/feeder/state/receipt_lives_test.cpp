// Receipts against leases: two runs that take the same batches. One gives each slot back at once
// and keeps a receipt, the other keeps the lease. Their states are equal at all times. And receipts
// that are committed while other threads ask for the state.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace receipt_lives_test {

using support::in_virtual_time;
using support::Numbers;
using support::rounds;

// Sample i has i % 7 elements.
class Documents final : public Dataset {
 public:
  explicit Documents(std::uint64_t size) : size_(size) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "documents"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  void read(std::uint64_t index, Sample& out) const override {
    out.set_length(0, index % 7);
    std::ranges::fill(out.as<std::uint8_t>(0), static_cast<std::uint8_t>(index));
  }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t /*field*/) const override {
    return index % 7;
  }

 private:
  const std::uint64_t size_;
  const std::vector<Field> fields_{
      {.name = "tokens", .dtype = DType::kUint8, .shape = {6}, .variable_length = true}};
};

// Two runs that resume twice. A batch that is taken is open until it is counted or dropped.
struct Twins {
  explicit Twins(std::uint64_t seed)
      : random(seed),
        is_packed(seed % 3 == 0),
        ranks(seed % 3 == 1 ? random() % 3 + 1 : 1),
        numbers({.size = random() % 50 + 8}),
        documents(random() % 50 + 20),
        options({.batch_size = random() % 7 + 2,
                 .seed = seed,
                 .sharing = seed % 5 == 2 && ranks == 1 ? Sharing::kDynamic : Sharing::kStatic}) {
    if (is_packed) options.packing = Packing{};
  }

  [[nodiscard]] const Dataset& data() const {
    return is_packed ? static_cast<const Dataset&>(documents) : numbers;
  }
  void run_segment();
  void take(std::size_t rank);
  void jump(std::size_t rank);
  void keep(Lease lease, Lease twin);
  void end_one();
  void end_some();
  void expect_equal() const { EXPECT_EQ(receipts->state(), leases->state()); }

  struct Open {
    Receipt receipt;
    Lease lease;
  };
  static constexpr std::size_t kMostOpen = 20;

  std::mt19937_64 random;
  const bool is_packed;
  const std::size_t ranks;
  const Numbers numbers;
  const Documents documents;
  PrefetcherOptions options;
  std::unique_ptr<Prefetcher> receipts;
  std::unique_ptr<Prefetcher> leases;
  std::vector<Open> open;
  std::size_t most_epochs = 0;  // in one state
};

void Twins::keep(Lease lease, Lease twin) {
  EXPECT_EQ(lease.epoch(), twin.epoch());
  EXPECT_EQ(lease.index(), twin.index());
  open.push_back({.receipt = lease.receipt(), .lease = std::move(twin)});
  if (random() % 2 == 0) lease.abandon();  // as well as a release
}

void Twins::take(std::size_t rank) {
  std::optional<Lease> lease = receipts->rank(rank).next();
  std::optional<Lease> twin = leases->rank(rank).next();
  ASSERT_EQ(lease.has_value(), twin.has_value());
  if (lease.has_value()) keep(*std::move(lease), *std::move(twin));
}

// Leaves the epoch for the beginning of another one.
void Twins::jump(std::size_t rank) {
  const std::uint64_t number = random() % 4;
  Epoch epoch = receipts->rank(rank).epoch(number);
  Epoch twin = leases->rank(rank).epoch(number);
  const auto first = epoch.begin();
  const auto other = twin.begin();
  ASSERT_EQ(first == epoch.end(), other == twin.end());
  if (first != epoch.end()) keep(std::move(*first), std::move(*other));
}

void Twins::end_one() {
  if (open.empty()) return;
  const auto at = open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
  if (random() % 5 == 0) {
    at->receipt = Receipt();
    at->lease.abandon();
  } else {
    at->receipt.commit();
    at->lease.release();
  }
  open.erase(at);
}

// Some receipts, at first as if.
void Twins::end_some() {
  std::vector<Open> some;
  for (std::size_t i = open.size(); i-- > 0;) {
    if (random() % 2 == 0) continue;
    some.push_back(std::move(open[i]));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::vector<const Receipt*> pointers;
  for (const Open& one : some) pointers.push_back(&one.receipt);
  const std::string with = receipts->state(pointers);
  expect_equal();
  for (Open& one : some) one.lease.release();
  EXPECT_EQ(with, leases->state());
  for (Open& one : some) one.receipt.commit();
}

void Twins::run_segment() {
  const auto make = [&](std::size_t most) {
    options.max_leases = most;
    return std::make_unique<Prefetcher>(data(), open_devices(ranks), options);
  };
  receipts = make(1);
  leases = make(kMostOpen + ranks);
  for (int steps = static_cast<int>(random() % 60); steps > 0; --steps) {
    const std::size_t rank = random() % ranks;
    const std::uint64_t what = random() % 16;
    if (what == 0) {
      end_some();
    } else if (what == 1 && options.sharing == Sharing::kStatic) {
      if (open.size() < kMostOpen) jump(rank);
    } else if (what < 6 || open.size() == kMostOpen) {
      end_one();
    } else {
      take(rank);
    }
    expect_equal();
    if (testing::Test::HasFailure()) return;
    most_epochs = std::max(most_epochs, State::parse(receipts->state()).epochs.size());
  }
  options.resume = receipts->state();
  leases->check_resume(*options.resume);
  open.clear();
}

TEST(ReceiptLives, HaveTheStatesOfLeasesThatAreHeldSoLong) {
  std::size_t most_epochs = 0;
  const auto lives = static_cast<std::uint64_t>(rounds(150));
  for (std::uint64_t seed = 0; seed < lives; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = 1, .seed = seed}, [&] {
      Twins twins(seed);
      for (int resumes = 0; resumes < 3 && !testing::Test::HasFailure(); ++resumes) {
        twins.run_segment();
      }
      most_epochs = std::max(most_epochs, twins.most_epochs);
    });
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(most_epochs, 3U) << "no receipt has outlived its epoch";
}

// Each receipt goes to one of two threads, while others ask for states.
TEST(ReceiptLives, AreCommittedOnOtherThreads) {
  const Numbers data({.size = 400});
  Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .workers = 2});
  const Channel<Receipt> receipts(4);
  const Receipt kept = feed.next()->receipt();
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (Receipt& receipt : receipts) receipt.commit();
    });
  }
  std::thread asks([&] {
    const std::vector<const Receipt*> with = {&kept};
    std::uint64_t most = 0;
    while (!over) {
      const std::string text = feed.state(with);
      const State state = State::parse(text);
      ASSERT_FALSE(state.epochs.empty());
      EXPECT_TRUE(state.epochs[0].batches.contains(0)) << text;
      EXPECT_GE(state.epochs[0].batches.count(), most) << text;
      most = state.epochs[0].batches.count();
      static_cast<void>(feed.state());
    }
  });
  while (std::optional<Lease> batch = feed.next()) receipts.send(batch->receipt());
  for (Lease& batch : feed.epoch(1)) receipts.send(batch.receipt());
  receipts.close();
  for (std::thread& one : threads) one.join();
  over = true;
  asks.join();
  const State state = State::parse(feed.state());
  ASSERT_EQ(state.epochs.size(), 2U);
  EXPECT_EQ(state.epochs[0].batches.intervals(), (std::vector<Interval>{{1, 100}}));
  EXPECT_EQ(state.epochs[1].batches.intervals(), (std::vector<Interval>{{0, 100}}));
}

}  // namespace receipt_lives_test
}  // namespace leat::feeder
