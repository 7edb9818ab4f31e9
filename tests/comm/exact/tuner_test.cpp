// The tuner's search on modelled steps, and exchanges that are tuned while they train.
#include "leat/comm/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/comm/profiles.h"
#include "bench/comm/step.h"
#include "leat/comm/error.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm::tuner_test {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSeeds = 5;
#else
constexpr unsigned kSeeds = 60;
#endif

// The steps of a model on 8 ranks, with alpha and delta of 100 us.
class Model {
 public:
  Model(const bench::Profile& profile, double gigabits) {
    step_.ranks.assign(8, profile.layers);
    step_.bytes = profile.bytes;
    step_.bandwidth = gigabits * 1e9 / 8;
    step_.alpha = step_.delta = 100us;
  }
  [[nodiscard]] Duration time(const Tuner::Setting& setting) {
    const auto key = std::pair(setting.partition_bytes, setting.credit_bytes);
    if (const auto known = times_.find(key); known != times_.end()) return known->second;
    step_.options.partition_bytes = setting.partition_bytes / 4 * 4;  // whole elements
    step_.options.credit_bytes = setting.credit_bytes;
    const std::vector<Duration> times = bench::run_step(step_);
    return times_[key] = *std::ranges::max_element(times);
  }
  // Searches with up to `noise` (0.05: 5 %) on each measurement. The time of what was chosen.
  [[nodiscard]] Duration tune(double noise, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
    Tuner tuner;
    for (int i = 0; i < 40; ++i) {
      EXPECT_FALSE(tuner.is_done());
      tuner.measured(Duration(
          std::llround(static_cast<double>(time(tuner.setting()).count()) * factor(random))));
    }
    EXPECT_TRUE(tuner.is_done());
    return time(tuner.setting());
  }

 private:
  bench::StepInstance step_;
  std::map<std::pair<std::size_t, std::size_t>, Duration> times_;
};

// The best of a grid of 20 x 20 settings, in equal ratios from 256 KiB to 64 and 256 MiB, in ns.
struct Best {
  const char* model;
  double gigabits;
  std::int64_t time;
};
constexpr std::array<Best, 9> kBest = {{{"vgg16", 10, 779'829'249},
                                        {"vgg16", 25, 672'839'014},
                                        {"vgg16", 100, 672'836'004},
                                        {"resnet50", 10, 443'771'685},
                                        {"resnet50", 25, 443'740'074},
                                        {"resnet50", 100, 443'724'268},
                                        {"alexnet", 10, 346'049'705},
                                        {"alexnet", 25, 140'750'882},
                                        {"alexnet", 100, 85'634'046}}};

Model model_of(const Best& best) {
  for (const bench::Profile& profile : bench::read_profiles("tests/comm/data/workloads.json")) {
    if (profile.name == best.model) return {profile, best.gigabits};
  }
  throw std::runtime_error(std::string("no profile ") + best.model);
}

class TunerOfModels : public testing::TestWithParam<Best> {};

TEST_P(TunerOfModels, ComesWithinTwoPercentOfTheBestInFortyMeasurements) {
  Model model = model_of(GetParam());
  EXPECT_LE(static_cast<double>(model.tune(0, 0).count()),
            1.02 * static_cast<double>(GetParam().time));
}

TEST_P(TunerOfModels, IsNotMisledByNoisySteps) {
  Model model = model_of(GetParam());
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    ASSERT_LE(static_cast<double>(model.tune(0.05, seed).count()),
              1.04 * static_cast<double>(GetParam().time))
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, TunerOfModels, testing::ValuesIn(kBest), [](const auto& one) {
  return one.param.model + std::string("At") + std::to_string(static_cast<int>(one.param.gigabits));
});

TEST(Tuner, StaysInItsRange) {
  const TunerOptions options{.least_bytes = 1000,
                             .most_partition_bytes = 3000,
                             .most_credit_bytes = 20'000,
                             .partition_bytes = 1,
                             .credit_bytes = 1};
  Tuner tuner(options);
  EXPECT_EQ(tuner.setting(), (Tuner::Setting{1000, 1000}));
  for (int i = 0; i < 100; ++i) {
    const Tuner::Setting setting = tuner.setting();
    EXPECT_GE(setting.partition_bytes, 1000U);
    EXPECT_LE(setting.partition_bytes, 3000U);
    EXPECT_GE(setting.credit_bytes, setting.partition_bytes);
    EXPECT_LE(setting.credit_bytes, 20'000U);
    tuner.measured(Duration(100'000'000 / static_cast<int>(setting.credit_bytes)));
  }
  EXPECT_EQ(tuner.setting().credit_bytes, 20'000U);
  EXPECT_NE(tuner.report().find("chosen after 40 measurements"), std::string::npos)
      << tuner.report();
}

TEST(Tuner, RefusesOptionsOutOfRange) {
  EXPECT_THROW(Tuner({.least_bytes = 0}), std::invalid_argument);
  EXPECT_THROW(Tuner({.most_partition_bytes = 1}), std::invalid_argument);
  EXPECT_THROW(Tuner({.most_credit_bytes = 1 << 20}), std::invalid_argument);
  EXPECT_THROW(Tuner({.measurements = 19}), std::invalid_argument);
}

class TunedExchange : public support::RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, TunedExchange, testing::ValuesIn(support::rank_places()),
                         support::rank_place_title);

TEST_P(TunedExchange, ChangesOnAllRanksBetweenTwoStepsAndSumsAsBefore) {
  on_ranks(3, [](Communicator& me) {
    std::vector<float> first(5'000);
    std::vector<float> second(70);
    const auto tuner = std::make_shared<Tuner>(TunerOptions{
        .least_bytes = 256, .most_partition_bytes = 8192, .most_credit_bytes = 32'768});
    const auto span = [](std::vector<float>& data) {
      return gpu::DeviceSpan(data.data(), data.size() * sizeof(float));
    };
    GradientExchange exchange(me, {{"first", span(first)}, {"second", span(second)}},
                              {.weights = Weights::kOnes, .tuner = tuner});
    for (int step = 0; step < 100; ++step) {
      exchange.begin_step(1);
      first.assign(first.size(), static_cast<float>(step + me.rank()));
      second.assign(second.size(), static_cast<float>(me.rank()));
      exchange.ready(1);
      exchange.ready(0);
      exchange.end_backward();
      // Every eighth step is left half awaited: no change then, on no rank.
      if (step % 8 == 7 && me.rank() == 1) {
        EXPECT_TRUE(exchange.await(0));
        EXPECT_TRUE(exchange.await(1));
      } else {
        exchange.await_all();
      }
      ASSERT_EQ(first, std::vector<float>(first.size(), static_cast<float>(3 * step + 3)));
      ASSERT_EQ(second, std::vector<float>(second.size(), 3.0F));
    }
    EXPECT_EQ(tuner->is_done(), me.rank() == 0);
    EXPECT_EQ(exchange.stats().steps, 100U);
    const std::vector<std::int64_t> mine = {static_cast<std::int64_t>(exchange.stats().pieces)};
    std::vector<std::int64_t> all(3);
    me.all_gather(mine, all).await();
    EXPECT_EQ(all, std::vector<std::int64_t>(3, mine[0]));
  });
}

TEST(TunedExchangeSteps, TheFirstAfterAChangeIsNotMeasured) {
  support::rank_places()[0].run(1, {}, [](Communicator& me) {
    std::vector<float> data(100);
    const auto tuner = std::make_shared<Tuner>(TunerOptions{.measurements = 20});
    GradientExchange exchange(
        me, {{"a", gpu::DeviceSpan(data.data(), data.size() * sizeof(float))}}, {.tuner = tuner});
    Tuner::Setting last = tuner->setting();
    while (!tuner->is_done()) {
      exchange.begin_step(1);
      sleep_for(std::exchange(last, tuner->setting()) == tuner->setting() ? Duration(1s)
                                                                          : Duration(1h));
      exchange.ready(0);
      exchange.end_backward();
      exchange.await_all();
    }
    const std::string report = tuner->report();
    EXPECT_NE(report.find("a step takes 1000.000 ms, and took 1000.000 ms"), std::string::npos)
        << report;
  });
}

TEST_P(TunedExchange, ATunerOnOneRankAloneIsAMismatch) {
  on_ranks(2, [](Communicator& me) {
    std::vector<float> data(10);
    try {
      const GradientExchange exchange(
          me, {{"a", gpu::DeviceSpan(data.data(), data.size() * sizeof(float))}},
          {.tuner = me.rank() == 0 ? std::make_shared<Tuner>() : nullptr});
      ADD_FAILURE() << "rank " << me.rank();
    } catch (const CommMismatch& mismatch) {
      EXPECT_NE(std::string(mismatch.what()).find("tuner"), std::string::npos) << mismatch.what();
    }
  });
}

TEST_P(TunedExchange, BucketsAreRefused) {
  on_ranks(1, [](Communicator& me) {
    EXPECT_THROW(
        GradientExchange(me, {}, {.policy = Policy::kBucketed, .tuner = std::make_shared<Tuner>()}),
        std::invalid_argument);
  });
}

}  // namespace leat::comm::tuner_test
