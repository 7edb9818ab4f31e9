#include "leat/feeder/plan/apportion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace leat::feeder {

std::string weight_text(double weight) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", weight);
  return text.data();
}

std::vector<std::uint64_t> integer_weights(std::span<const double> weights) {
  double largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {  // true for NaN
      throw std::invalid_argument("weight " + std::to_string(i) + " is " + weight_text(weights[i]) +
                                  "; a weight is 0 or a positive number");
    }
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) throw std::invalid_argument("no weight is above 0");
  int exponent = 0;
  static_cast<void>(std::frexp(largest, &exponent));
  std::vector<std::uint64_t> integers;
  integers.reserve(weights.size());
  for (const double weight : weights) {
    const double scaled = std::ldexp(weight, std::numeric_limits<double>::digits - exponent);
    integers.push_back(static_cast<std::uint64_t>(std::llrint(scaled)));
  }
  return integers;
}

std::vector<std::uint64_t> apportioned(std::span<const std::uint64_t> weights,
                                       std::uint64_t total) {
  const Uint128 sum = std::accumulate(weights.begin(), weights.end(), Uint128{0});
  if (sum == 0) throw std::invalid_argument("no weight is above 0");
  std::vector<std::uint64_t> counts;
  std::vector<Uint128> remainders;
  std::uint64_t left = total;
  for (const std::uint64_t weight : weights) {
    const Uint128 share = Uint128{weight} * total;
    counts.push_back(static_cast<std::uint64_t>(share / sum));
    remainders.push_back(share % sum);
    left -= counts.back();
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](auto a, auto b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; i < left; ++i) ++counts[order[i]];
  return counts;
}

Interleaving::Interleaving(std::span<const std::uint64_t> counts) : parts_(counts.size()) {
  nodes_.reserve(counts.size());
  add(counts);
  is_narrow_ = nodes_.empty() || nodes_[0].all <= std::numeric_limits<std::uint32_t>::max();
}

void Interleaving::add(std::span<const std::uint64_t> counts) {
  if (counts.size() < 2) return;
  const std::size_t half = counts.size() / 2;
  const auto sum = [](std::span<const std::uint64_t> some) {
    return std::accumulate(some.begin(), some.end(), std::uint64_t{0});
  };
  const std::uint64_t left = sum(counts.first(half));
  const std::uint64_t all = left + sum(counts.subspan(half));
  nodes_.push_back(
      {all, left, std::numeric_limits<std::uint64_t>::max() / std::max<std::uint64_t>(all, 1)});
  add(counts.first(half));
  add(counts.subspan(half));
}

// `halve` returns how many places before `place` are the left half's: floor((place * left + all /
// 2) / all), and whether `place` is, too: that of `place` + 1 is larger.
template <class Halve>
Interleaving::Found Interleaving::walk(std::uint64_t place, const Halve& halve) const noexcept {
  std::size_t first = 0;
  std::size_t end = parts_;
  const Node* node = nodes_.data();
  while (end - first > 1) {
    const std::size_t middle = first + (end - first) / 2;
    const auto [before, is_left] = halve(*node, place);
    // Without branches, of which half would be guessed wrong. The right half's node is behind those
    // of the left half, which are one fewer than its parts.
    place = is_left ? before : place - before;
    node += is_left ? 1 : middle - first;
    first = is_left ? first : middle;
    end = is_left ? middle : end;
  }
  return {first, place};
}

Interleaving::Found Interleaving::find(std::uint64_t place) const noexcept {
  struct Half {
    std::uint64_t before;
    bool is_left;
  };
  if (is_narrow_) {
    return walk(place, [](const Node& node, std::uint64_t at) -> Half {
      const std::uint64_t product = at * node.left + node.all / 2;
      // The inverse is too small by less than 1 / all in all: the quotient, by 1 at most.
      auto quotient = static_cast<std::uint64_t>((Uint128{product} * node.inverse) >> 64);
      std::uint64_t rest = product - quotient * node.all;
      if (rest >= node.all) {
        ++quotient;
        rest -= node.all;
      }
      return {quotient, rest + node.left >= node.all};
    });
  }
  return walk(place, [](const Node& node, std::uint64_t at) -> Half {
    const Uint128 product = Uint128{at} * node.left + node.all / 2;
    const auto quotient = static_cast<std::uint64_t>(product / node.all);
    const Uint128 rest = product - Uint128{quotient} * node.all;
    return {quotient, rest + node.left >= node.all};
  });
}

}  // namespace leat::feeder
