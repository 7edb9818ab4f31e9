#include "leat/feeder/state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/state/epoch_plan.h"

namespace leat::feeder {
namespace {

void require_same_run(const State& a, const State& b) {
  const auto require = [](bool same, const char* what) {
    if (same) return;
    throw std::invalid_argument(
        std::string("leat: these states are not of one run: they differ in ") + what);
  };
  require(a.samples == b.samples, "the number of samples");
  require(a.dataset == b.dataset, "the dataset's files");
  require(a.elements == b.elements, "the number of packed elements");
  require(a.batch_size == b.batch_size, "batch_size");
  require(a.seed == b.seed, "seed");
  require(a.order == b.order, "order");
  require(a.last_batch == b.last_batch, "last_batch");
  require(a.world_size == b.world_size, "world_size");
}

// Ranks of one run are never this many epochs apart; such states are refused.
constexpr std::uint64_t kMostEpochsApart = 10'000;
// The most shards that a merge lists because some ranks have released them and others have not.
constexpr std::uint64_t kMostShardsApart = std::uint64_t{1} << 26;

const EpochReleases* find(const State& state, std::uint64_t epoch) {
  const auto found = std::ranges::lower_bound(state.epochs, epoch, {}, &EpochReleases::epoch);
  return found == state.epochs.end() || found->epoch != epoch ? nullptr : &*found;
}

// If a state does not list an epoch, its ranks have finished the epoch or not begun it. They have
// finished it if the state lists a later epoch.
bool is_through_with(const State& state, std::uint64_t epoch) {
  return !state.epochs.empty() && state.epochs.front().epoch > epoch;
}

// Returns the last place that comes before everything that some rank has not released.
std::optional<Carry> merge_carry(std::span<const State> states, std::uint64_t epoch) {
  std::optional<Carry> least;
  for (const State& state : states) {
    if (is_through_with(state, epoch)) continue;
    const EpochReleases* const one = find(state, epoch);
    if (one == nullptr || !one->carry.has_value())
      return std::nullopt;  // the rank is at the beginning
    if (!least.has_value() || one->carry->element < least->element) least = one->carry;
  }
  return least;
}

// If all positions of a batch were released, by different ranks, lists the batch instead.
void join_whole_batches(const BatchPlan& plan, EpochReleases& merged) {
  std::vector<Interval> whole;  // positions
  for (const Interval& range : merged.positions.intervals()) {
    const std::uint64_t size = plan.batch_size();
    const std::uint64_t first = range.first / size + (range.first % size == 0 ? 0 : 1);
    const bool has_last = range.end >= plan.end_of_positions();
    const std::uint64_t end = has_last ? plan.batches() : range.end / size;
    if (first >= end) continue;
    whole.push_back({.first = first * size, .end = has_last ? range.end : end * size});
    merged.batches.add({.first = first, .end = end});
  }
  merged.positions = difference(merged.positions, IntervalSet(std::move(whole)));
}

// Merges one epoch of all states.
EpochReleases merge_epoch(std::span<const State> states, std::uint64_t epoch, std::uint64_t& room) {
  const BatchPlan plan = states[0].plan();
  const auto is_through = [&](const State& state) { return is_through_with(state, epoch); };
  // All ranks have resumed from the same positions. A state whose ranks have finished the epoch
  // does not have them any more.
  EpochReleases before{.epoch = epoch, .batches = {}, .positions = {}};
  for (const State& state : states) {
    const EpochReleases* const one = find(state, epoch);
    if (one != nullptr && !one->before.empty()) before.positions = one->before;
  }
  const EpochPlan shards(plan, &before);
  IntervalSet everywhere;
  everywhere.add({.first = 0, .end = plan.batches()});
  for (const State& state : states) {
    if (is_through(state)) continue;
    const EpochReleases* const one = find(state, epoch);
    everywhere = intersection(everywhere, one == nullptr ? IntervalSet{} : one->batches);
  }
  EpochReleases merged{.epoch = epoch, .batches = everywhere, .positions = {}};
  merged.carry = merge_carry(states, epoch);
  std::vector<Interval> positions;
  std::vector<PositionRange> shard;
  for (const State& state : states) {
    const EpochReleases* const one = find(state, epoch);
    if (one == nullptr && !is_through(state)) continue;
    IntervalSet more;
    if (one == nullptr) {
      more.add({.first = 0, .end = plan.batches()});
    } else {
      more = one->batches;
      const std::vector<Interval>& of_it = one->positions.intervals();
      positions.insert(positions.end(), of_it.begin(), of_it.end());
    }
    more = difference(more, everywhere);
    if (state.ranks > 0 && more.count() > room / state.ranks) {
      throw std::invalid_argument("leat: these states are too far apart to be merged: more than " +
                                  std::to_string(kMostShardsApart) +
                                  " shards were released by some ranks and not by others");
    }
    room -= more.count() * state.ranks;
    for (const Interval& range : more.intervals()) {
      for (std::uint64_t batch = range.first; batch < range.end; ++batch) {
        for (std::size_t rank = state.rank; rank < state.rank + state.ranks; ++rank) {
          shards.shard(batch, rank, shard);
          for (const PositionRange& part : shard) {
            positions.push_back({.first = part.first, .end = part.first + part.count});
          }
        }
      }
    }
  }
  merged.positions = IntervalSet(std::move(positions));
  join_whole_batches(plan, merged);
  return merged;
}

}  // namespace

BatchPlan State::plan() const {
  return {elements > 0 ? elements : samples, batch_size, world_size, last_batch};
}

State State::merge(std::span<const State> states) {
  if (states.empty()) throw std::invalid_argument("leat: no state to merge");
  IntervalSet covered;
  std::size_t ranks = 0;
  for (const State& state : states) {
    require_same_run(states[0], state);
    covered.add({.first = state.rank, .end = state.rank + state.ranks});
    ranks += state.ranks;
  }
  State merged = states[0];
  if (covered.count() != merged.world_size || ranks != merged.world_size) {
    throw std::invalid_argument("leat: states of " + std::to_string(ranks) + " ranks, of which " +
                                std::to_string(covered.count()) +
                                " are different, are not those of a world of " +
                                std::to_string(merged.world_size));
  }
  merged.rank = 0;
  merged.ranks = merged.world_size;
  std::vector<std::uint64_t> epochs;
  for (const State& state : states) {
    if (state.epochs.empty()) epochs.push_back(0);  // its ranks have begun no epoch
    for (const EpochReleases& one : state.epochs) epochs.push_back(one.epoch);
  }
  // No state lists an epoch that some ranks have finished and the others have not begun.
  const auto [least, largest] = std::ranges::minmax(epochs);
  if (largest - least > kMostEpochsApart) {
    throw std::invalid_argument("leat: these states are " + std::to_string(largest - least) +
                                " epochs apart, which ranks of one run are not");
  }
  for (std::uint64_t epoch = least; epoch < largest; ++epoch) {
    if (std::ranges::any_of(states,
                            [&](const State& one) { return is_through_with(one, epoch); })) {
      epochs.push_back(epoch);
    }
  }
  std::ranges::sort(epochs);
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  merged.epochs.clear();
  std::uint64_t room = kMostShardsApart;
  for (const std::uint64_t epoch : epochs) {
    merged.epochs.push_back(merge_epoch(states, epoch, room));
  }
  return merged;
}

}  // namespace leat::feeder
