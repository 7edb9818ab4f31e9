// comm/interop/torch.h: gradients of several ranks are those of one process with all samples.
#include "leat/comm/interop/torch.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/interop/torch/net.h"

namespace leat::comm {
namespace torch_exchange_test {

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
      expect_same_gradients(net, alone);
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
    expect_same_gradients(net, alone);
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
    expect_same_gradients(net, alone);
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
    expect_same_gradients(net, alone);
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
