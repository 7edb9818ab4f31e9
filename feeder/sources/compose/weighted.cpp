#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "leat/feeder/compose.h"
#include "leat/feeder/plan/apportion.h"
#include "leat/feeder/random.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {
namespace {

// Integers have 62 bits together: room for the sum to be rounded up.
constexpr int kBits = 62;

[[noreturn]] void refuse_weighted(const std::string& why) { refuse_composition("Weighted", why); }

double sum_of(std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {  // true for NaN
      refuse_weighted("weight " + std::to_string(i) + " is " + weight_text(weights[i]) +
                      "; a weight is 0 or a positive number");
    }
    sum += weights[i];
  }
  if (sum == 0) refuse_weighted("no weight is above 0");
  if (std::isinf(sum)) refuse_weighted("the sum of the weights is infinite; scale them down");
  return sum;
}

}  // namespace

Weighted::Weighted(const Dataset& from, std::span<const double> weights,
                   const WeightedOptions& options)
    : Composed({&from}, "Weighted", std::string(from.name()) + ", weighted"),
      size_(options.samples.value_or(from.size())),
      replacement_(options.replacement) {
  const std::string name = quoted_name(from);
  if (from.varies_by_epoch()) {
    refuse_weighted(
        "the numbers of " + name +
        " stand for other samples in each epoch, and cannot have weights; weight its parts");
  }
  if (weights.size() != from.size()) {
    refuse_weighted(std::to_string(weights.size()) + " weights are given for the " +
                    std::to_string(from.size()) + " samples of " + name);
  }
  const double sum = sum_of(weights);
  if (size_ == 0) refuse_weighted("`samples` is 0; it is at least 1");
  int exponent = 0;
  static_cast<void>(std::frexp(sum, &exponent));
  ends_.reserve(weights.size());
  std::uint64_t end = 0;
  for (const double weight : weights) {
    end += static_cast<std::uint64_t>(std::llrint(std::ldexp(weight, kBits - exponent)));
    ends_.push_back(end);
  }
  compose_digest({size_, replacement_ ? 1U : 0U}, ends_);
}

std::uint64_t Weighted::at(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept {
  const std::uint64_t key = seed_for(seed, "weighted");
  const std::uint64_t all = ends_.back();
  // Draws lie one N-th of all weights apart; a sample has as many as fit into its weight.
  const std::uint64_t draw =
      replacement_ ? Random(key, epoch, index).below(all)
                   : static_cast<std::uint64_t>(
                         (Uint128{index} * all + Random(key, epoch, 0).below(all)) / size_);
  return static_cast<std::uint64_t>(std::ranges::upper_bound(ends_, draw) - ends_.begin());
}

Composed::Found Weighted::find(std::uint64_t index, std::uint64_t seed,
                               std::uint64_t epoch) const noexcept {
  return {.number = at(index, seed, epoch), .epoch = epoch};
}

}  // namespace leat::feeder
