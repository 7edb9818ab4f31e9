// comm/interop/torch.h: what a trainer does wrong is told, by the parameter's name.
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

#include "leat/comm/communicator.h"
#include "leat/comm/error.h"
#include "leat/comm/interop/torch.h"
#include "tests/comm/interop/torch/net.h"

namespace leat::comm {
namespace torch_exchange_test {

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

TEST(TorchExchange, ModulesThatDifferAreAMismatchOnAllRanks) {
  on_ranks(2, [](Communicator& me) {
    const torch::nn::Linear net(2, 2 + me.rank());
    expect_error<CommMismatch>([&] { const TorchExchange exchange(me, *net); }, {"weight"});
  });
}

}  // namespace torch_exchange_test
}  // namespace leat::comm
