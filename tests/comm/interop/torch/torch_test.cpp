// comm/interop/torch.h: gradients of several ranks are those of one process with all samples.
#include "leat/comm/interop/torch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/error.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace torch_exchange_test {

using namespace std::chrono_literals;
using support::expect_contains;

/// Each rank on a plain thread of its own.
void on_ranks(int count, const std::function<void(Communicator&)>& body) {
  OpenOptions options;
  options.deadline = 10s;
  std::vector<Communicator> ranks = open("local:" + std::to_string(count), options);
  std::vector<std::jthread> threads;
  for (Communicator& rank : ranks) {
    threads.emplace_back([&] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank.rank() << ": " << error.what();
        rank.abort("its test has failed");
      }
    });
  }
}

template <class Error>
void expect_error(const std::function<void()>& f, std::initializer_list<std::string_view> parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    expect_contains(error.what(), parts);
  }
}

/// Two layers, of which the second can be left out; in double, so that rounding does not count.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t seed = 0) {
    register_module("first", first);
    register_module("second", second);
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& one : parameters()) {
      one.copy_(torch::arange(one.numel(), torch::kFloat64).add_(seed).sin_().view(one.sizes()));
    }
  }
  torch::Tensor forward(const torch::Tensor& x, bool with_second = true) {
    const torch::Tensor y = torch::tanh(first->forward(x));
    return with_second ? second->forward(y) : y;
  }
  torch::nn::Linear first{4, 3};
  torch::nn::Linear second{3, 3};
};

torch::Tensor samples(std::int64_t step, std::int64_t begin, std::int64_t end) {
  return torch::arange(begin * 4, end * 4, torch::kFloat64).add_(100 * step).cos_().view({-1, 4});
}

torch::Tensor loss_of(Net& net, const torch::Tensor& x, bool with_second = true) {
  return net.forward(x, with_second).square().sum(1).mean();
}

void expect_close(const torch::Tensor& found, const torch::Tensor& wanted) {
  EXPECT_EQ(found.defined(), wanted.defined());
  if (!found.defined() || !wanted.defined()) return;
  EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-12) << found << "\nis not\n" << wanted;
}

void expect_same_weights(Net& found, Net& wanted) {
  const std::vector<torch::Tensor> have = found.parameters();
  const std::vector<torch::Tensor> want = wanted.parameters();
  for (std::size_t i = 0; i < have.size(); ++i) expect_close(have[i], want[i]);
}

torch::optim::SGD optimizer_of(Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// What a trainer does to the gradients between steps.
const std::vector<std::pair<std::string, std::function<void(Net&)>>> kCleanings = {
    {"zeroed", [](Net& net) { net.zero_grad(/*set_to_none=*/false); }},
    {"set to none", [](Net& net) { net.zero_grad(/*set_to_none=*/true); }},
    {"other tensors",
     [](Net& net) {
       for (torch::Tensor& one : net.parameters()) one.mutable_grad() = torch::zeros_like(one);
     }},
    {"transposed",
     [](Net& net) {
       for (torch::Tensor& one : net.parameters()) {
         one.mutable_grad() = torch::zeros_like(one.t().contiguous()).t();
       }
     }},
};

TEST(TorchExchange, WeightsAreThoseOfOneProcessHoweverGradientsAreCleared) {
  for (const auto& [what, clean] : kCleanings) {
    SCOPED_TRACE(what);
    Net alone;
    torch::optim::SGD optimizer = optimizer_of(alone);
    for (std::int64_t step = 0; step < 4; ++step) {
      alone.zero_grad();
      loss_of(alone, samples(step, 0, 4)).backward();
      optimizer.step();
    }
    on_ranks(3, [&, clean = &clean](Communicator& me) {
      Net net(me.rank());  // the exchange copies rank 0's
      TorchExchange exchange(me, net);
      EXPECT_EQ(exchange.size(), 4U);
      torch::optim::SGD mine = optimizer_of(net);
      const std::int64_t begin = me.rank();  // of 1, 1 and 2 samples
      const std::int64_t end = me.rank() < 2 ? begin + 1 : 4;
      for (std::int64_t step = 0; step < 4; ++step) {
        (*clean)(net);
        exchange.begin_step(static_cast<std::uint64_t>(end - begin));
        loss_of(net, samples(step, begin, end)).backward();
        exchange.await_all();
        mine.step();
      }
      expect_same_weights(net, alone);
      EXPECT_EQ(exchange.stats().steps, 4U);
    });
  }
}

TEST(TorchExchange, WhatNoRankUsesKeepsItsGradientAndWhatOneUsesIsExchanged) {
  Net alone;
  const auto step_alone = [&](bool with_second) {
    alone.zero_grad(true);
    loss_of(alone, samples(0, 0, 1), with_second).mul(0.5).backward();
    loss_of(alone, samples(0, 1, 2), false).mul(0.5).backward();
  };
  on_ranks(2, [&](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    for (const bool with_second : {true, false, true}) {
      if (me.rank() == 0) step_alone(with_second);
      me.barrier().await();
      net.zero_grad(true);
      exchange.begin_step(1);
      const bool mine = with_second && me.rank() == 0;
      loss_of(net, samples(0, me.rank(), me.rank() + 1), mine).backward();
      exchange.await_all();
      for (std::size_t i = 0; i < 4; ++i) {
        expect_close(net.parameters()[i].grad(), alone.parameters()[i].grad());
      }
      me.barrier().await();
    }
  });
}

TEST(TorchExchange, PausedBackwardsAreOfTheStepThatFollows) {
  Net alone;
  loss_of(alone, samples(0, 0, 8)).backward();
  on_ranks(2, [&](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    const std::int64_t begin = 4 * me.rank();
    exchange.begin_step(4);
    {
      const TorchExchange::Pause pause = exchange.pause();
      loss_of(net, samples(0, begin, begin + 1)).mul(0.25).backward();
      const TorchExchange::Pause nested = exchange.pause();
      loss_of(net, samples(0, begin + 1, begin + 2)).mul(0.25).backward();
    }
    loss_of(net, samples(0, begin + 2, begin + 4)).mul(0.5).backward();
    exchange.await_all();
    for (std::size_t i = 0; i < 4; ++i) {
      expect_close(net.parameters()[i].grad(), alone.parameters()[i].grad());
    }
  });
}

TEST(TorchExchange, AGradientOfPausedBackwardsAloneIsExchanged) {
  Net alone;
  loss_of(alone, samples(0, 0, 1), true).backward();
  loss_of(alone, samples(0, 1, 2), false).backward();
  on_ranks(2, [&](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    exchange.begin_step(1);
    {
      const TorchExchange::Pause pause = exchange.pause();
      loss_of(net, samples(0, 0, 1), true).backward();
    }
    loss_of(net, samples(0, 1, 2), false).backward();
    exchange.await_all();
    for (std::size_t i = 0; i < 4; ++i) {
      expect_close(net.parameters()[i].grad(), alone.parameters()[i].grad());
    }
  });
}

TEST(TorchExchange, ARankWithoutSamplesGetsTheResults) {
  Net alone;
  loss_of(alone, samples(0, 0, 2)).backward();
  on_ranks(2, [&](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    exchange.begin_step(me.rank() == 0 ? 2 : 0);
    if (me.rank() == 0) loss_of(net, samples(0, 0, 2)).backward();
    exchange.await_all();
    for (std::size_t i = 0; i < 4; ++i) {
      expect_close(net.parameters()[i].grad(), alone.parameters()[i].grad());
    }
  });
}

TEST(TorchExchange, ALayerIsAwaitedByItself) {
  on_ranks(2, [](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    EXPECT_FALSE(exchange.await(*net.first)) << "before the first step";
    for (int step = 0; step < 2; ++step) {
      exchange.begin_step(1);
      loss_of(net, samples(step, me.rank(), me.rank() + 1)).backward();
      exchange.end_backward();
      exchange.end_backward();  // once more is nothing
      EXPECT_TRUE(exchange.await(*net.first));
      EXPECT_FALSE(exchange.await(*net.first)) << "awaited before";
      EXPECT_TRUE(exchange.await(net)) << "the rest";
    }
    const torch::nn::Linear other(2, 2);
    expect_error<std::invalid_argument>([&] { exchange.await(*other); },
                                        {"weight", "no parameter"});
  });
}

TEST(TorchExchange, MistakesAreToldByTheParametersName) {
  on_ranks(2, [](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    expect_error<std::logic_error>([&] { loss_of(net, samples(0, 0, 1)).backward(); },
                                   {"second.bias", "begin_step()", "pause()"});
    exchange.begin_step(1);
    loss_of(net, samples(0, 0, 1)).backward();
    expect_error<std::logic_error>([&] { loss_of(net, samples(0, 0, 1)).backward(); },
                                   {"second.bias", "before the last one was awaited", "pause()"});
    expect_error<std::logic_error>([&] { exchange.await_all(); },
                                   {"was changed between backward()"});
    for (const bool waits : {false, true}) {
      me.barrier().await();
      net.zero_grad(false);
      exchange.begin_step(1);
      loss_of(net, samples(0, 0, 1)).backward();
      if (waits) exchange.await_all();
      net.zero_grad(false);
      if (!waits) {
        expect_error<std::logic_error>([&] { exchange.await(*net.first); },
                                       {"first.", "was changed between backward()", "zero_grad()"});
      }
      if (!waits) {
        EXPECT_THROW(exchange.await_all(), std::logic_error);
      }
      exchange.await_all();  // nothing is left
    }
    net.first->weight.requires_grad_(false);  // frozen: empty from now on
    exchange.begin_step(1);
    loss_of(net, samples(0, 0, 1)).backward();
    exchange.await_all();
    net.first->weight.requires_grad_(true);

    net.second->to(torch::kFloat32);
    expect_error<std::logic_error>([&] { exchange.begin_step(1); }, {"second.weight", "to()"});
  });
}

struct Words : torch::nn::Module {
  Words() { register_module("words", words); }
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(5, 2).sparse(true)};
};

TEST(TorchExchange, SparseGradientsAreRefused) {
  on_ranks(1, [](Communicator& me) {
    Words net;
    TorchExchange exchange(me, net);
    exchange.begin_step(1);
    expect_error<std::invalid_argument>(
        [&] { net.words->forward(torch::zeros({1}, torch::kInt64)).sum().backward(); },
        {"words.weight", "sparse"});
    exchange.await_all();
  });
}

struct Normed : torch::nn::Module {
  Normed() { register_module("norm", norm); }
  torch::nn::BatchNorm1d norm{3};
};

TEST(TorchExchange, BuffersAreRefusedOrThoseOfRank0) {
  on_ranks(2, [](Communicator& me) {
    Normed net;
    expect_error<std::invalid_argument>([&] { const TorchExchange exchange(me, net); },
                                        {"norm.running_mean", "kFromRoot"});
    net.norm->running_mean.fill_(me.rank() + 1);
    net.norm->num_batches_tracked.fill_(me.rank() + 7);
    TorchExchange exchange(me, net, {}, TorchBuffers::kFromRoot);
    EXPECT_EQ(net.norm->running_mean[2].item<float>(), 1);
    EXPECT_EQ(net.norm->num_batches_tracked.item<std::int64_t>(), 7);
    net.norm->running_mean.fill_(me.rank() + 3);
    exchange.broadcast_buffers();
    EXPECT_EQ(net.norm->running_mean[0].item<float>(), 3);

    Net without;
    TorchExchange other(me, without);
    EXPECT_THROW(other.broadcast_buffers(), std::logic_error);
  });
}

struct Tied : torch::nn::Module {
  Tied() {
    frozen = register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
    weight = register_parameter("weight", torch::ones({3, 2}).t());
    register_module("again", again);
    again->weight = again->register_parameter("weight", weight);
  }
  struct AgainImpl : torch::nn::Module {
    torch::Tensor weight;
  };
  TORCH_MODULE(Again);
  torch::Tensor frozen;
  torch::Tensor weight;
  Again again;
};

TEST(TorchExchange, SharedFrozenAndTransposedParametersAreExchangedOnceOrNotAtAll) {
  on_ranks(2, [](Communicator& me) {
    Tied net;
    const torch::NoGradGuard no_grad;
    net.frozen.fill_(me.rank() + 5);
    net.weight.copy_(torch::arange(6).view({2, 3}).add(10 * me.rank()));
    TorchExchange exchange(me, net);
    EXPECT_EQ(exchange.size(), 1U);
    EXPECT_EQ(net.frozen[0].item<float>(), 5);
    EXPECT_EQ(net.weight[1][0].item<float>(), 3) << "rank 0's, at its place";
    const torch::AutoGradMode grad(true);
    exchange.begin_step(1);
    (net.weight.square().sum() + net.again->weight.sum()).mul(me.rank() + 1).backward();
    exchange.await_all();
    EXPECT_EQ(net.weight.grad()[1][0].item<float>(), (2 * 3 + 1) * 1.5F);
  });
}

/// Its backward throws on rank 1.
struct Fails : torch::autograd::Function<Fails> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x,
                               bool fails) {
    context->saved_data["fails"] = fails;
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    if (context->saved_data["fails"].toBool()) throw std::runtime_error("out of memory, say");
    return {gradients[0], torch::Tensor()};
  }
};

TEST(TorchExchange, ABackwardThatThrowsLeavesTheRestEmptyAndNobodyWaiting) {
  on_ranks(2, [](Communicator& me) {
    Net net;
    TorchExchange exchange(me, net);
    exchange.begin_step(1);
    const torch::Tensor y =
        Fails::apply(torch::tanh(net.first->forward(samples(0, 0, 1))), me.rank() == 1);
    const torch::Tensor loss = net.second->forward(y).square().sum();
    if (me.rank() == 1) {
      EXPECT_THROW(loss.backward(), std::runtime_error);
    } else {
      loss.backward();
    }
    exchange.await_all();
    Net alone;
    loss_of(alone, samples(0, 0, 1)).backward();
    expect_close(net.second->weight.grad(), alone.second->weight.grad());
    expect_close(net.first->weight.grad(), alone.first->weight.grad().mul(0.5));
  });
}

TEST(TorchExchange, ModulesThatDifferAreAMismatchOnAllRanks) {
  on_ranks(2, [](Communicator& me) {
    const torch::nn::Linear net(2, 2 + me.rank());
    expect_error<CommMismatch>([&] { const TorchExchange exchange(me, *net); }, {"weight"});
  });
}

TEST(TorchExchange, TheModuleAndTheExchangeEndInAnyOrder) {
  on_ranks(1, [](Communicator& me) {
    auto net = std::make_unique<Net>();
    auto exchange = std::make_unique<TorchExchange>(me, *net);
    exchange->begin_step(1);
    loss_of(*net, samples(0, 0, 1)).backward();
    exchange->await_all();
    exchange.reset();
    net->zero_grad(true);
    loss_of(*net, samples(0, 0, 1)).backward();  // no hook is left
    const torch::Tensor gradient = net->first->weight.grad();
    exchange = std::make_unique<TorchExchange>(me, *net);
    net.reset();
    EXPECT_EQ(exchange->size(), 4U);
    exchange.reset();
    EXPECT_TRUE(gradient.defined());
  });
}

}  // namespace torch_exchange_test
}  // namespace leat::comm
