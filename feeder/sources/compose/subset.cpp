// Subset, and split().
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "leat/feeder/compose.h"
#include "leat/feeder/plan/apportion.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {

// Which samples: those of `numbers`; else, of the progression first + i * step. With `order`, that
// many places of a shuffled order.
struct Subset::Rule {
  bool is_list = false;
  std::vector<std::uint64_t> numbers = {};
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;  // modulo 2^64
  std::optional<Sampler> order = std::nullopt;
  std::uint64_t seed = 0;  // of `order`
};

Subset::Subset(const Dataset& from, std::vector<std::uint64_t> numbers)
    : Subset(from, Rule{.is_list = true, .numbers = std::move(numbers)}) {
  for (std::size_t i = 0; i < rule_->numbers.size(); ++i) {
    if (rule_->numbers[i] < from.size()) continue;
    refuse_composition("Subset", "number " + std::to_string(rule_->numbers[i]) + ", at place " +
                                     std::to_string(i) + ", is beyond the " +
                                     std::to_string(from.size()) + " samples of " +
                                     quoted_name(from));
  }
}

Subset Subset::range(const Dataset& from, std::uint64_t first, std::uint64_t count,
                     std::int64_t step) {
  const auto steps = static_cast<std::uint64_t>(step);
  if (count > 0) {
    const Uint128 distance = Uint128{count - 1} * (step < 0 ? 0 - steps : steps);
    const bool is_within =
        first < from.size() && (step < 0 ? distance <= first : distance <= from.size() - 1 - first);
    if (!is_within) {
      refuse_composition("Subset",
                         "a range of " + std::to_string(count) + " from " + std::to_string(first) +
                             " in steps of " + std::to_string(step) + " leaves the " +
                             std::to_string(from.size()) + " samples of " + quoted_name(from));
    }
  }
  return {from, Rule{.first = first, .count = count, .step = steps}};
}

Subset::Subset(const Dataset& from, Rule rule)
    : Composed({&from}, "Subset", std::string(from.name()) + ", subset"),
      rule_(std::make_unique<const Rule>(std::move(rule))) {
  compose_digest(
      {rule_->first, rule_->count, rule_->step, rule_->order.has_value() ? 1U : 0U, rule_->seed},
      rule_->numbers);
}

Subset::~Subset() = default;

std::uint64_t Subset::size() const noexcept {
  return rule_->is_list ? rule_->numbers.size() : rule_->count;
}

Composed::Found Subset::find(std::uint64_t index, std::uint64_t /*seed*/,
                             std::uint64_t epoch) const noexcept {
  if (rule_->is_list) return {.number = rule_->numbers[index], .epoch = epoch};
  const std::uint64_t place = rule_->first + index * rule_->step;
  return {.number = rule_->order.has_value() ? rule_->order->at(0, place) : place, .epoch = epoch};
}

std::deque<Subset> split(const Dataset& from, std::span<const double> parts, std::uint64_t seed) {
  if (from.varies_by_epoch()) {
    refuse_composition("split", "the numbers of " + quoted_name(from) +
                                    " stand for other samples in each epoch, so samples would "
                                    "leak from one part into another; split its parts");
  }
  std::vector<std::uint64_t> counts;
  try {
    counts = apportioned(integer_weights(parts), from.size());
  } catch (const std::invalid_argument& e) {
    refuse_composition("split", e.what());
  }
  const std::uint64_t key = seed_for(seed, "split");
  std::deque<Subset> subsets;
  std::uint64_t first = 0;
  for (std::size_t j = 0; j < counts.size(); ++j) {
    if (counts[j] == 0) {
      refuse_composition("split", "part " + std::to_string(j) + ", of " + weight_text(parts[j]) +
                                      ", has none of the " + std::to_string(from.size()) +
                                      " samples of \"" + std::string(from.name()) +
                                      "\"; leave it out");
    }
    subsets.emplace_back(from, Subset::Rule{.first = first,
                                            .count = counts[j],
                                            .order = Sampler(from.size(), Order::kShuffled, key),
                                            .seed = key});
    first += counts[j];
  }
  return subsets;
}

std::deque<Subset> split(const Dataset& from, std::initializer_list<double> parts,
                         std::uint64_t seed) {
  return split(from, std::span(parts.begin(), parts.size()), seed);
}

}  // namespace leat::feeder
