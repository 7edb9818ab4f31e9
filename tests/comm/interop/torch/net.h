// A small module, and ranks on threads that train it; for the tests of comm/interop/torch.h.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/interop/torch.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace torch_exchange_test {

using namespace std::chrono_literals;
using support::expect_contains;

/// Each rank on a plain thread of its own.
inline void on_ranks(int count, const std::function<void(Communicator&)>& body) {
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

inline torch::Tensor samples(std::int64_t step, std::int64_t begin, std::int64_t end) {
  return torch::arange(begin * 4, end * 4, torch::kFloat64).add_(100 * step).cos_().view({-1, 4});
}

inline torch::Tensor loss_of(Net& net, const torch::Tensor& x, bool with_second = true) {
  return net.forward(x, with_second).square().sum(1).mean();
}

inline void expect_close(const torch::Tensor& found, const torch::Tensor& wanted) {
  EXPECT_EQ(found.defined(), wanted.defined());
  if (!found.defined() || !wanted.defined()) return;
  EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-12) << found << "\nis not\n" << wanted;
}

inline void expect_same_weights(Net& found, Net& wanted) {
  const std::vector<torch::Tensor> have = found.parameters();
  const std::vector<torch::Tensor> want = wanted.parameters();
  for (std::size_t i = 0; i < have.size(); ++i) expect_close(have[i], want[i]);
}

inline torch::optim::SGD optimizer_of(Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

inline void expect_same_gradients(Net& found, Net& wanted) {
  const std::vector<torch::Tensor> have = found.parameters();
  const std::vector<torch::Tensor> want = wanted.parameters();
  for (std::size_t i = 0; i < have.size(); ++i) expect_close(have[i].grad(), want[i].grad());
}

}  // namespace torch_exchange_test
}  // namespace leat::comm
