// Mixture. Always true, for each part:
//
//  - Its visits are numbered, through all epochs: visit g is number g mod size of pass g / size.
//    Ascending places of an epoch have ascending visits, and an epoch begins with the visit behind
//    the last one of the epoch before. So a pass ends before the next one begins.
//  - Visits before a stage are a sum that its later stages do not change.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "leat/feeder/compose.h"
#include "leat/feeder/plan/apportion.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/sources/compose/lately.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {
namespace {

// Numbers of a part's samples that are computed together, in half the time for each.
constexpr std::size_t kTogether = 4;
using Numbers = std::array<std::uint64_t, kTogether>;

// Returns what no other mixture of this process has or had; not 0.
std::uint64_t new_identity() noexcept {
  static std::atomic<std::uint64_t> latest{0};
  return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::vector<const Dataset*> pointers(const std::vector<MixturePart>& parts) {
  std::vector<const Dataset*> all;
  all.reserve(parts.size());
  for (const MixturePart& part : parts) all.push_back(&part.dataset.get());
  return all;
}

[[noreturn]] void refuse_mixture(const std::string& why) { refuse_composition("Mixture", why); }

// Returns the weights of the parts; none if they are their sizes.
std::vector<double> weights_of(const std::vector<MixturePart>& parts, const PartList& list) {
  std::vector<double> weights;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].weight.has_value() != parts[0].weight.has_value()) {
      const std::size_t without = parts[0].weight.has_value() ? k : 0;
      refuse_mixture(list.name(without) +
                     ", has no weight, and others have one; give all parts one, or "
                     "none");
    }
    if (parts[k].weight.has_value()) weights.push_back(*parts[k].weight);
  }
  return weights;
}

// Returns how many samples of an epoch are each part's. `weights`: none if they are the sizes.
std::vector<std::uint64_t> counts_of(const PartList& list, const std::vector<double>& weights,
                                     std::uint64_t samples, const std::string& when) {
  std::vector<std::uint64_t> integers;
  std::vector<std::uint64_t> counts;
  try {
    if (weights.empty()) {
      for (std::size_t k = 0; k < list.size(); ++k) integers.push_back(list[k].size());
    } else {
      integers = integer_weights(weights);
    }
    counts = apportioned(integers, samples);
  } catch (const std::invalid_argument& e) {
    refuse_mixture(e.what() + when + (weights.empty() ? ": all parts are empty" : ""));
  }
  for (std::size_t k = 0; k < list.size(); ++k) {
    const bool is_wanted = weights.empty() ? integers[k] > 0 : weights[k] > 0;
    if (!is_wanted) continue;
    const std::string what = (weights.empty() ? "the size" : "weight " + weight_text(weights[k])) +
                             " of " + list.name(k) + when;
    if (list[k].size() == 0) refuse_mixture(what + ", is above 0, but the part has no samples");
    if (counts[k] == 0) {
      refuse_mixture(what + ", gives no sample in an epoch of " + std::to_string(samples) +
                     "; raise `samples`, or leave the part out");
    }
  }
  return counts;
}

}  // namespace

struct Mixture::Plan {
  // What holds from one epoch on.
  struct Stage {
    std::uint64_t first_epoch;
    std::vector<std::uint64_t> counts;  // by part: visits in an epoch
    std::vector<Uint128> before;        // by part: visits in all epochs before
    Interleaving places;
  };

  // What the part says, nearer than behind its virtual functions.
  struct Part {
    std::uint64_t size;
    bool is_shuffled;
    bool varies_by_epoch;
  };

  const PartList& parts;
  std::uint64_t samples;
  bool shuffle;
  std::vector<Part> of = {};
  std::vector<Stage> stages = {};  // ascending; the first from epoch 0 on
  const std::uint64_t identity = new_identity();

  [[nodiscard]] const Stage& stage_of(std::uint64_t epoch) const noexcept {
    const auto behind = std::ranges::upper_bound(stages, epoch, {}, &Stage::first_epoch);
    return *(behind - 1);
  }
  // Returns the visits of part `k` before `epoch`, which is not before the stage.
  [[nodiscard]] static Uint128 visits_before(const Stage& stage, std::uint64_t epoch,
                                             std::size_t k) noexcept {
    return stage.before[k] + Uint128{epoch - stage.first_epoch} * stage.counts[k];
  }
  [[nodiscard]] Place at(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept;
  void add_stage(std::uint64_t first_epoch, const std::vector<double>& weights) {
    const std::string when =
        first_epoch == 0 ? "" : ", from epoch " + std::to_string(first_epoch) + " on";
    std::vector<std::uint64_t> counts = counts_of(parts, weights, samples, when);
    std::vector<Uint128> before(parts.size());
    for (std::size_t k = 0; k < parts.size() && !stages.empty(); ++k) {
      before[k] = visits_before(stages.back(), first_epoch, k);
    }
    Interleaving places(counts);
    stages.push_back({first_epoch, std::move(counts), std::move(before), std::move(places)});
  }
};

Mixture::Mixture(const std::vector<MixturePart>& of, const MixtureOptions& options)
    : Composed(pointers(of), "Mixture", "mixture") {
  if (options.samples == std::uint64_t{0}) refuse_mixture("`samples` is 0; it is at least 1");
  const std::uint64_t samples = options.samples.has_value() ? *options.samples : parts().samples();
  Plan plan{.parts = parts(), .samples = samples, .shuffle = options.shuffle};
  for (const MixturePart& part : of) {
    const Dataset& data = part.dataset;
    plan.of.push_back({data.size(), options.shuffle && !data.is_ordered(), data.varies_by_epoch()});
  }
  const std::vector<double> weights = weights_of(of, parts());
  if (options.stages.empty() || options.stages[0].first_epoch > 0) {
    plan.add_stage(0, weights);
  } else if (!weights.empty()) {
    refuse_mixture(
        "the parts have weights, and `stages` has some from epoch 0 on, too; leave one out");
  }
  for (std::size_t i = 0; i < options.stages.size(); ++i) {
    const MixtureStage& stage = options.stages[i];
    if (i > 0 && stage.first_epoch <= options.stages[i - 1].first_epoch) {
      refuse_mixture("stage " + std::to_string(i) + " of `stages` begins with epoch " +
                     std::to_string(stage.first_epoch) + ", and the one before it with epoch " +
                     std::to_string(options.stages[i - 1].first_epoch) + "; they have to ascend");
    }
    if (stage.weights.size() != of.size()) {
      refuse_mixture("stage " + std::to_string(i) + " of `stages` has " +
                     std::to_string(stage.weights.size()) + " weights for " +
                     std::to_string(of.size()) + " parts");
    }
    plan.add_stage(stage.first_epoch, stage.weights);
  }
  compose_digest({plan.shuffle ? 1U : 0U, samples});
  for (const Plan::Stage& stage : plan.stages) compose_digest({stage.first_epoch}, stage.counts);
  plan_ = std::make_unique<const Plan>(std::move(plan));
}

Mixture::~Mixture() = default;

std::uint64_t Mixture::size() const noexcept { return plan_->samples; }

Mixture::Place Mixture::at(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept {
  static thread_local Lately<Place, 64> places;  // as many as a reader announces
  return places.get({{plan_->identity, seed, epoch, index}}, index,
                    [&] { return plan_->at(index, seed, epoch); });
}

Mixture::Place Mixture::Plan::at(std::uint64_t index, std::uint64_t seed,
                                 std::uint64_t epoch) const noexcept {
  const Stage& stage = stage_of(epoch);
  const auto [part, number] = stage.places.find(index);
  const std::uint64_t size = of[part].size;
  const Uint128 visit = visits_before(stage, epoch, part) + number;
  const bool is_narrow = visit <= std::numeric_limits<std::uint64_t>::max();
  // A division of 128 bits takes several times as long.
  const auto pass = is_narrow ? static_cast<std::uint64_t>(visit) / size
                              : static_cast<std::uint64_t>(visit / size);
  const auto in_pass = static_cast<std::uint64_t>(visit) - pass * size;
  if (!of[part].is_shuffled) return {part, in_pass, pass};
  const std::uint64_t key = key_of(seed_for(seed, "mixture"), part);
  static thread_local Lately<Numbers, 128> lately;
  // Few parts have several groups at a time (what is announced is ahead of what is read), and many
  // parts have one each.
  const std::uint64_t group = in_pass / kTogether;
  const Numbers few = lately.get({{identity, key, pass, group}}, group + part * 61, [&] {
    Numbers numbers{};
    const std::uint64_t first = in_pass - in_pass % kTogether;
    const std::size_t count = std::min<std::uint64_t>(kTogether, size - first);
    Sampler(size, Order::kShuffled, key).at(pass, first, std::span(numbers).first(count));
    return numbers;
  });
  return {part, few[in_pass % kTogether], pass};
}

Composed::Found Mixture::find(std::uint64_t index, std::uint64_t seed,
                              std::uint64_t epoch) const noexcept {
  const Place place = at(index, seed, epoch);
  const bool varies = plan_->of[place.part].varies_by_epoch;
  return {.part = place.part, .number = place.number, .epoch = varies ? place.pass : epoch};
}

}  // namespace leat::feeder
