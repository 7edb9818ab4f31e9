#include "leat/comm/server/update.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace leat::comm {
namespace {

// Two loops, so that the compiler finds vectors in both: of the first, that the values it reads and
// writes are the same; of the second, by a look at the pointers, that they are not.
template <class Updated>
void each(const float* weights, float* values, std::size_t count, const Updated& updated) noexcept {
  if (weights == values) {
    for (std::size_t i = 0; i < count; ++i) values[i] = updated(values[i], i);
  } else {
    for (std::size_t i = 0; i < count; ++i) values[i] = updated(weights[i], i);
  }
}

// The optimizers come by value: a reference could be to what is written.
void apply(Sgd sgd, const float* weights, float* values, const float* gradient, float* /*state*/,
           std::size_t count, std::uint64_t /*step*/) noexcept {
  each(weights, values, count,
       [=](float weight, std::size_t i) { return weight - sgd.rate * gradient[i]; });
}

void apply(Momentum momentum, const float* weights, float* values, const float* gradient,
           float* velocity, std::size_t count, std::uint64_t /*step*/) noexcept {
  each(weights, values, count, [=](float weight, std::size_t i) {
    const float v = momentum.momentum * velocity[i] + gradient[i];
    velocity[i] = v;
    return weight - momentum.rate * v;
  });
}

void apply(Adam adam, const float* weights, float* values, const float* gradient, float* state,
           std::size_t count, std::uint64_t step) noexcept {
  float* const mean = state;
  float* const square = state + count;
  const auto power = static_cast<double>(step);
  const auto first = static_cast<float>(1 - std::pow(static_cast<double>(adam.beta1), power));
  const auto second =
      static_cast<float>(std::sqrt(1 - std::pow(static_cast<double>(adam.beta2), power)));
  const float rate = adam.rate / first;
  each(weights, values, count, [=](float weight, std::size_t i) {
    const float g = gradient[i];
    const float m = adam.beta1 * mean[i] + (1 - adam.beta1) * g;
    const float v = adam.beta2 * square[i] + (1 - adam.beta2) * g * g;
    mean[i] = m;
    square[i] = v;
    return weight - rate * m / (std::sqrt(v) / second + adam.epsilon);
  });
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

OwnedWeights::OwnedWeights(const Optimizer& optimizer, std::size_t count)
    : optimizer_(&optimizer), state_(count * states_of(optimizer)) {
  versions_.push_back(std::make_unique<Version>(Version{.values = std::vector<float>(count)}));
  latest_ = versions_.front().get();
}

void OwnedWeights::update(const float* gradient) {
  Version* to = latest_;
  if (to->readers > 0) {
    const auto unread =
        std::ranges::find(versions_, 0, [](const auto& version) { return version->readers; });
    if (unread == versions_.end()) {  // at most one for each client, and one more
      versions_.push_back(
          std::make_unique<Version>(Version{.values = std::vector<float>(to->values.size())}));
      to = versions_.back().get();
    } else {
      to = unread->get();
    }
  }
  comm::update(*optimizer_, latest_->values.data(), to->values.data(), gradient, state_.data(),
               to->values.size(), ++updates_);
  latest_ = to;
}

}  // namespace leat::comm
