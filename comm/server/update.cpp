#include "leat/comm/server/update.h"

#include <cmath>
#include <variant>

namespace leat::comm {
namespace {

void apply(const Sgd& sgd, const float* weights, float* updated, const float* gradient,
           float* /*state*/, std::size_t count, std::uint64_t /*step*/) noexcept {
  for (std::size_t i = 0; i < count; ++i) updated[i] = weights[i] - sgd.rate * gradient[i];
}

void apply(const Momentum& momentum, const float* weights, float* updated, const float* gradient,
           float* __restrict velocity, std::size_t count, std::uint64_t /*step*/) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    velocity[i] = momentum.momentum * velocity[i] + gradient[i];
    updated[i] = weights[i] - momentum.rate * velocity[i];
  }
}

void apply(const Adam& adam, const float* weights, float* updated, const float* gradient,
           float* __restrict state, std::size_t count, std::uint64_t step) noexcept {
  float* __restrict const mean = state;
  float* __restrict const square = state + count;
  const auto power = static_cast<double>(step);
  const auto first = static_cast<float>(1 - std::pow(static_cast<double>(adam.beta1), power));
  const auto second =
      static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(adam.beta2), power)));
  const float rate = adam.rate / first;
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    mean[i] = adam.beta1 * mean[i] + (1 - adam.beta1) * g;
    square[i] = adam.beta2 * square[i] + (1 - adam.beta2) * g * g;
    updated[i] = weights[i] - rate * mean[i] / (std::sqrt(square[i]) / second + adam.epsilon);
  }
}

}  // namespace

std::size_t states_of(const Optimizer& optimizer) noexcept {
  return std::holds_alternative<Sgd>(optimizer)    ? 0
         : std::holds_alternative<Adam>(optimizer) ? 2
                                                   : 1;
}

void update(const Optimizer& optimizer, const float* weights, float* updated, const float* gradient,
            float* state, std::size_t count, std::uint64_t step) noexcept {
  std::visit([&](const auto& one) { apply(one, weights, updated, gradient, state, count, step); },
             optimizer);
}

}  // namespace leat::comm
