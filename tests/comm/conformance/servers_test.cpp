// ParameterServer over every transport: the weights are those of a plain loop, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <variant>
#include <vector>

#include "leat/comm/parameter_server.h"
#include "tests/comm/support/layers.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm::support {
namespace {

float first_weight(std::size_t tensor, std::size_t i) {
  return static_cast<float>(tensor + 1) + static_cast<float>(i % 97) / 16;
}

float gradient_at(int rank, std::uint64_t step, std::size_t tensor, std::size_t i) {
  return std::sin(static_cast<float>(rank * 7919 + static_cast<int>(step) * 131 +
                                     static_cast<int>(tensor) * 17 + static_cast<int>(i)));
}

// The steps of all workers, drawn alike on each rank.
struct Steps {
  struct Step {
    std::vector<std::uint64_t> samples;       // by worker
    std::vector<std::vector<bool>> is_given;  // by worker and tensor
  };
  Steps(std::size_t workers, std::size_t tensors, std::uint32_t seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < 5; ++step) {
      Step one;
      for (std::size_t w = 0; w < workers; ++w) {
        one.samples.push_back(w > 0 && random() % 5 == 0 ? 0 : 1 + random() % 64);
        one.is_given.emplace_back();
        for (std::size_t t = 0; t < tensors; ++t) one.is_given[w].push_back(random() % 8 != 0);
      }
      all.push_back(one);
    }
  }
  std::vector<Step> all;
};

// One element's history by a plain loop.
struct Serial {
  float weight = 0, first = 0, second = 0;
  std::uint64_t updates = 0;

  void update(const Optimizer& optimizer, float g) {
    ++updates;
    if (const auto* const sgd = std::get_if<Sgd>(&optimizer)) {
      const volatile float change = sgd->rate * g;
      weight = weight - change;
    } else if (const auto* const momentum = std::get_if<Momentum>(&optimizer)) {
      const volatile float kept = momentum->momentum * first;
      first = kept + g;
      const volatile float change = momentum->rate * first;
      weight = weight - change;
    } else {
      const Adam& adam = std::get<Adam>(optimizer);
      const double n = static_cast<double>(updates);
      first = adam.beta1 * first + (1 - adam.beta1) * g;
      second = adam.beta2 * second + (1 - adam.beta2) * g * g;
      const auto wide = [](float value) { return static_cast<double>(value); };
      const double mean = wide(first) / (1 - std::pow(wide(adam.beta1), n));
      const double square = wide(second) / (1 - std::pow(wide(adam.beta2), n));
      weight -=
          static_cast<float>(wide(adam.rate) * mean / (std::sqrt(square) + wide(adam.epsilon)));
    }
  }
};

std::vector<int> workers_of(const ServerOptions& options, int ranks) {
  std::vector<int> workers = options.workers;
  std::ranges::sort(workers);
  for (int rank = 0; rank < ranks && options.workers.empty(); ++rank) {
    const bool serves = std::count(options.servers.begin(), options.servers.end(), rank) > 0;
    if (!serves || options.servers.size() == static_cast<std::size_t>(ranks))
      workers.push_back(rank);
  }
  return workers;
}

// Trains a few steps on this rank; on a worker, compares the weights with a plain loop's.
void train_and_compare(Communicator& me, const ServerOptions& options, float tolerance) {
  const std::vector<std::size_t> counts = {5, 0, 1, 333, 64};
  const std::vector<int> workers = workers_of(options, me.size());
  const Steps steps(workers.size(), counts.size(), 7);
  Layers model(counts);
  for (std::size_t t = 0; t < counts.size() && me.rank() == workers.front(); ++t) {
    for (std::size_t i = 0; i < counts[t]; ++i) model.weights[t][i] = first_weight(t, i);
  }
  ParameterServer server(me, model.parameters(), options);
  const auto here = std::find(workers.begin(), workers.end(), me.rank());
  if (here == workers.end()) return server.serve();

  const auto worker = static_cast<std::size_t>(here - workers.begin());
  for (std::size_t s = 0; s < steps.all.size(); ++s) {
    const Steps::Step& step = steps.all[s];
    server.begin_step(step.samples[worker]);
    std::vector<Completion> open;
    for (std::size_t t = counts.size(); t-- > 0;) {
      if (!step.is_given[worker][t] || step.samples[worker] == 0) continue;
      for (std::size_t i = 0; i < counts[t]; ++i) {
        model.gradients[t][i] = gradient_at(static_cast<int>(worker), s, t, i);
      }
      open.push_back(server.send_vars(t));
      open.push_back(server.fetch_vars(t));
    }
    open.push_back(server.send_barrier());
    for (Completion& one : open) one.await();
    for (std::size_t t = 0; t < counts.size(); ++t) {
      if (!step.is_given[worker][t] || step.samples[worker] == 0) server.fetch_vars(t).await();
    }
  }
  server.serve();  // if it serves beside

  for (std::size_t t = 0; t < counts.size(); ++t) {
    for (std::size_t i = 0; i < counts[t]; ++i) {
      Serial serial{.weight = first_weight(t, i)};
      for (std::size_t s = 0; s < steps.all.size(); ++s) {
        const Steps::Step& step = steps.all[s];
        std::uint64_t total = 0;
        for (const std::uint64_t samples : step.samples) total += samples;
        std::optional<float> sum;
        for (std::size_t w = 0; w < workers.size(); ++w) {
          if (!step.is_given[w][t] || step.samples[w] == 0) continue;
          const auto weight =
              static_cast<float>(static_cast<double>(step.samples[w]) / static_cast<double>(total));
          const volatile float part = weight * gradient_at(static_cast<int>(w), s, t, i);
          sum = sum.has_value() ? *sum + part : part;
        }
        if (sum.has_value()) serial.update(options.optimizer, *sum);
      }
      const float difference = std::fabs(model.weights[t][i] - serial.weight);
      ASSERT_LE(difference, tolerance) << "tensor " << t << ", element " << i << ": "
                                       << model.weights[t][i] << ", not " << serial.weight;
    }
  }
}

class Servers : public RankTest {};
INSTANTIATE_TEST_SUITE_P(Ranks, Servers, testing::ValuesIn(rank_places()), rank_place_title);

TEST_P(Servers, SynchronousWeightsAreThoseOfAPlainLoop) {
  on_ranks([](Communicator& me) {
    for (const Optimizer& optimizer :
         std::vector<Optimizer>{Sgd{0.125F}, Momentum{0.1F, 0.9F}, Adam{}}) {
      const float tolerance = std::holds_alternative<Adam>(optimizer) ? 1e-5F : 0;
      train_and_compare(
          me, {.servers = {me.size() - 1}, .optimizer = optimizer, .partition_bytes = 128},
          tolerance);
    }
  });
}

TEST_P(Servers, EveryRankCanServeBesideAWorker) {
  on_ranks(3, [](Communicator& me) {
    for (const Policy policy : {Policy::kFifo, Policy::kPriority}) {
      train_and_compare(me,
                        {.servers = {0, 1, 2},
                         .optimizer = Momentum{},
                         .policy = policy,
                         .partition_bytes = 40,
                         .credit_bytes = 100},
                        0);
    }
    train_and_compare(me, {.servers = {0, 2}, .workers = {2, 1, 0}, .partition_bytes = 4}, 0);
    // A worker that serves, and has weights from servers that do not train.
    train_and_compare(me, {.servers = {0, 1, 2}, .workers = {0}, .partition_bytes = 4}, 0);
  });
}

TEST_P(Servers, AsynchronousGradientsAreAllTaken) {
  on_ranks(4, [](Communicator& me) {
    for (const std::optional<int> bound : {std::optional<int>(), {0}, {3}}) {
      Layers model({100});
      ParameterServer server(me, model.parameters(),
                             {.servers = {3},
                              .synchronous = false,
                              .staleness = bound,
                              .optimizer = Sgd{1},
                              .partition_bytes = 80});
      constexpr int kSteps = 20;
      if (me.rank() == 3) {
        server.serve();
        std::uint64_t counted = 0;
        for (const std::uint64_t one : server.stats().staleness) counted += one;
        EXPECT_EQ(counted, 3U * kSteps * 5);
        EXPECT_EQ(server.stats().updates, counted);
        continue;
      }
      // Whole numbers: sums of any order are equal.
      for (int step = 0; step < kSteps; ++step) {
        server.begin_step(1);
        model.gradients[0].assign(100, static_cast<float>(me.rank() + 1));
        Completion sent = server.send_vars(0);
        server.fetch_vars(0).await();
        sent.await();
      }
      server.begin_step(1);
      // The others' last gradients come when they come, piece by piece.
      const std::vector<float> all(100, -6.0F * kSteps);
      while (model.weights[0] != all) server.fetch_vars(0).await();
    }
  });
}

TEST_P(Servers, AFetchHasTheGradientsThatItsWorkerHasSent) {
  on_ranks(2, [](Communicator& me) {
    constexpr std::size_t kCount = 100'000;
    Layers model({kCount});
    ParameterServer server(me, model.parameters(),
                           {.servers = {1},
                            .synchronous = false,
                            .optimizer = Sgd{1},
                            .partition_bytes = std::size_t{32} << 10});
    if (me.rank() == 1) return server.serve();
    model.gradients[0].assign(kCount, 1);
    for (int step = 1; step <= 20; ++step) {
      server.begin_step(1);
      Completion sent = server.send_vars(0);
      server.fetch_vars(0).await();
      sent.await();
      ASSERT_EQ(model.weights[0], std::vector<float>(kCount, -static_cast<float>(step)));
    }
  });
}

TEST_P(Servers, WhatOneRankDoesWrongIsToldAtOnce) {
  on_ranks(2, [](Communicator& me) {
    Layers model({4, 4});
    ParameterServer server(me, model.parameters(), {.servers = {1}});
    if (me.rank() == 1) {
      EXPECT_THROW(server.begin_step(1), std::logic_error);
      EXPECT_THROW(static_cast<void>(server.fetch_vars(0)), std::logic_error);
      return server.serve();
    }
    EXPECT_THROW(static_cast<void>(server.send_vars(0)), std::logic_error);
    EXPECT_THROW(static_cast<void>(server.send_barrier()), std::logic_error);
    server.begin_step(1);
    EXPECT_THROW(server.begin_step(1), std::logic_error);
    EXPECT_THROW(static_cast<void>(server.send_vars(2)), std::invalid_argument);
    server.send_vars(0).await();
    EXPECT_THROW(static_cast<void>(server.send_vars(0)), std::logic_error);
    server.send_barrier().await();
    EXPECT_THROW(server.begin_step(1), std::logic_error);
    server.fetch_vars(0).await();
    server.begin_step(1);
    server.send_barrier().await();
  });
}

TEST_P(Servers, RefusesOptionsOutOfRange) {
  on_ranks(1, [](Communicator& me) {
    const auto refuses = [&](const ServerOptions& options) {
      Layers model({4});
      EXPECT_THROW(ParameterServer(me, model.parameters(), options), std::invalid_argument);
    };
    refuses({.servers = {}});
    refuses({.servers = {1}});
    refuses({.servers = {0, 0}});
    refuses({.workers = {-1}});
    refuses({.staleness = 1});
    refuses({.synchronous = false, .staleness = -1});
    refuses({.synchronous = false, .staleness = 0, .optimizer = Momentum{}});
    refuses({.optimizer = Sgd{-1}});
    refuses({.optimizer = Sgd{NAN}});
    refuses({.optimizer = Adam{.beta1 = 1}});
    refuses({.policy = Policy::kBucketed});
    refuses({.partition_bytes = 0});
    refuses({.credit_bytes = 0});
    Layers model({4});
    std::vector<Parameter> parameters = model.parameters();
    parameters[0].weights = gpu::DeviceSpan(model.weights[0].data(), 8);  // half of the gradient
    EXPECT_THROW(ParameterServer(me, parameters, {}), std::invalid_argument);
  });
}

}  // namespace
}  // namespace leat::comm::support
