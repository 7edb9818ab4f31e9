// Random steps of a data-parallel trainer: what each rank gives to an exchange, and what every rank
// must get back, by a plain loop of the test's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "tests/comm/support/values.h"

namespace leat::comm::support {

using Bytes = std::vector<std::byte>;

struct Tensor {
  DType dtype = DType::kFloat32;
  std::size_t count = 0;
};

/// What is trained. Every rank has the same.
struct Plan {
  ExchangeOptions options;
  std::vector<Tensor> tensors;
  struct Step {
    std::vector<std::uint64_t> samples;       // by rank
    std::vector<std::vector<bool>> is_given;  // by rank and tensor
  };
  std::vector<Step> steps;
  std::uint32_t seed = 0;  // of the orders of calls, which differ from rank to rank
};

/// Calls f(T{}) with the type of C++.
template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat64: return f(double{});
    case DType::kInt32: return f(std::int32_t{});
    case DType::kInt64: return f(std::int64_t{});
    case DType::kFloat16: return f(gpu::Float16{});
    case DType::kBFloat16: return f(gpu::BFloat16{});
    default: return f(float{});
  }
}

template <class T>
[[nodiscard]] Bytes to_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// What rank `rank` computes as the gradient of a tensor.
[[nodiscard]] inline Bytes gradient_of(const Plan& plan, int rank, std::size_t step,
                                       std::size_t tensor) {
  const Tensor& what = plan.tensors[tensor];
  return with_type(what.dtype, [&]<class T>(T /*type*/) {
    return to_bytes(values<T>(rank, what.count, 1000 * step + 100'000 * tensor));
  });
}

/// Whether a rank has contributed, and the tensor has elements.
[[nodiscard]] inline bool has_result(const Plan& plan, std::size_t step, std::size_t tensor) {
  if (plan.tensors[tensor].count == 0) return false;
  for (const auto& given : plan.steps[step].is_given) {
    if (given[tensor]) return true;
  }
  return false;
}

/// The result: from rank 0 up, rounded once.
[[nodiscard]] inline Bytes result_of(const Plan& plan, std::size_t step, std::size_t tensor) {
  const Tensor& what = plan.tensors[tensor];
  const Plan::Step& of = plan.steps[step];
  std::uint64_t total = 0;
  for (const std::uint64_t samples : of.samples) total += samples;
  return with_type(what.dtype, [&]<class T>(T /*type*/) {
    std::vector<T> results;
    for (std::size_t i = 0; i < what.count; ++i) {
      using Wide = decltype(widen(T{}));
      Wide sum{};
      bool is_first = true;
      for (std::size_t rank = 0; rank < of.samples.size(); ++rank) {
        if (!of.is_given[rank][tensor]) continue;
        Wide x = widen(value<T>(static_cast<int>(rank), 1000 * step + 100'000 * tensor + i));
        if constexpr (std::is_integral_v<Wide>) {
          using Unsigned = std::make_unsigned_t<Wide>;
          sum = static_cast<Wide>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(x));
        } else {
          if (plan.options.weights == Weights::kSamples) {
            x *= static_cast<Wide>(static_cast<float>(static_cast<double>(of.samples[rank]) /
                                                      static_cast<double>(total)));
          }
          sum = is_first ? x : sum + x;
        }
        is_first = false;
      }
      results.push_back(narrow<T>(sum));
    }
    return to_bytes(results);
  });
}

/// The memory of one rank's gradients, on the host.
class Memory {
 public:
  explicit Memory(const Plan& plan) {
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
      const Tensor& what = plan.tensors[i];
      bytes.emplace_back(what.count * gpu::size_of(what.dtype));
      gradients.push_back({"tensor " + std::to_string(i),
                           gpu::DeviceSpan(bytes.back().data(), bytes.back().size()), what.dtype});
    }
  }
  std::vector<Bytes> bytes;
  std::vector<Gradient> gradients;
};

/// 0 to `count` - 1 in a random order.
[[nodiscard]] inline std::vector<std::size_t> shuffled(std::size_t count, std::mt19937& random) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

/// A random plan of `ranks` ranks: all types, policies, pieces from 1 byte on, empty gradients,
/// ranks and steps without samples, tensors without elements.
[[nodiscard]] inline Plan random_plan(std::uint32_t seed, int ranks) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t end) { return static_cast<std::size_t>(random() % end); };
  constexpr DType kTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                              DType::kBFloat16, DType::kInt32,   DType::kInt64};
  Plan plan{.options = {.policy = static_cast<Policy>(below(3)),
                        .urgency = static_cast<Urgency>(below(2)),
                        .weights = static_cast<Weights>(below(2)),
                        .synchronous = below(2) == 0,
                        .partition_bytes = 1 + below(200),
                        .credit_bytes = below(5) == 0 ? ~std::size_t{0} : 1 + below(300),
                        .bucket_bytes = {}},
            .tensors = {},
            .steps = {},
            .seed = seed};
  for (std::size_t i = 1 + below(3); i > 0; --i) {
    plan.options.bucket_bytes.push_back(1 + below(400));
  }
  for (std::size_t i = below(7); i > 0; --i) {
    plan.tensors.push_back({kTypes[below(plan.options.weights == Weights::kOnes ? 6 : 4)],
                            below(6) == 0 ? 0 : below(80)});
  }
  for (int step = 0; step < 4; ++step) {
    Plan::Step one;
    for (int rank = 0; rank < ranks; ++rank) {
      one.samples.push_back(below(4) == 0 ? 0 : 1 + below(9));
      std::vector<bool> given(plan.tensors.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        given[i] = one.samples.back() > 0 && below(5) != 0;
      }
      one.is_given.push_back(std::move(given));
    }
    plan.steps.push_back(std::move(one));
  }
  return plan;
}

}  // namespace leat::comm::support
