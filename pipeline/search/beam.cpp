#include "leat/pipeline/search/beam.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace leat::pipeline {
namespace {

constexpr std::size_t kFewestBuckets = 256;

}  // namespace

void Beam::Layer::clear() {
  words.clear();
  bound.clear();
  sum.clear();
  step.clear();
  linked.clear();
  is_out.clear();
  table.assign(kFewestBuckets, kNothing);
}

Beam::Beam(const Chains& chains, const Moves& moves, Bounds& bounds, std::size_t memory_bytes,
           std::function<bool()> is_stopped)
    : chains_(chains),
      moves_(moves),
      bounds_(bounds),
      memory_bytes_(memory_bytes),
      is_stopped_(std::move(is_stopped)) {}

StateView Beam::view(const Layer& layer, std::size_t index) const {
  return {layer.words.data() + index * moves_.words(), moves_.words()};
}

std::uint32_t& Beam::bucket(Layer& layer, StateView state) const {
  std::uint64_t hash = 0;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    hash = (hash ^ static_cast<std::uint64_t>(state[chain])) * 0x9fb21c651e98df25U;
    hash ^= hash >> 32U;
  }
  return layer.table[hash & (layer.table.size() - 1)];
}

void Beam::rehash(Layer& layer) const {
  layer.table.assign(4 * layer.table.size(), kNothing);
  for (std::size_t index = 0; index < layer.size(); ++index) {
    if (layer.is_out[index] != 0) continue;
    layer.linked[index] =
        std::exchange(bucket(layer, view(layer, index)), static_cast<std::uint32_t>(index));
  }
}

// The states of the next layer in a bucket with the same elements placed.
template <typename Visit>
void Beam::for_each_alike(StateView state, const Visit& visit) {
  for (std::uint32_t* link = &bucket(next_, state); *link != kNothing;) {
    const StateView other = view(next_, *link);
    const bool is_alike = std::equal(
        state.begin(), state.begin() + static_cast<std::ptrdiff_t>(chains_.size()), other.begin());
    if (is_alike && visit(other)) {  // takes it out
      next_.is_out[*link] = 1;
      *link = next_.linked[*link];
    } else {
      link = &next_.linked[*link];
    }
  }
}

bool Beam::is_dominated(StateView state) {
  bool is_worse = false;
  for_each_alike(state, [&](StateView other) {
    is_worse |= moves_.dominates(other, state);
    return false;
  });
  return is_worse;
}

void Beam::insert(StateView state, Ticks bound, Step step) {
  for_each_alike(state, [&](StateView other) { return moves_.dominates(state, other); });
  if (next_.size() == next_.table.size()) rehash(next_);
  next_.words.insert(next_.words.end(), state.begin(), state.end());
  next_.bound.push_back(bound);
  next_.sum.push_back(bounds_.sum());
  next_.step.push_back(static_cast<std::uint32_t>(steps_.size()));
  next_.is_out.push_back(0);
  next_.linked.push_back(
      std::exchange(bucket(next_, state), static_cast<std::uint32_t>(next_.size() - 1)));
  steps_.push_back(step);
}

// A state may be postponed several times, for one rank after the other; each time, other moves are
// to choose from.
void Beam::expand(std::size_t index, Ticks target) {
  const StateView from = view(layer_, index);
  state_.assign(from.begin(), from.end());
  while (true) {
    const Moves::Move first = moves_.first_to_end(state_);
    if (!first.exists()) return;
    moves_.choices(state_, first, choices_);
    for (const Moves::Move& move : choices_) {
      after_ = state_;
      moves_.place(after_, move);
      moves_.settle(after_, moves_.first_to_end(after_));
      if (is_dominated(after_)) continue;
      const Ticks bound = bounds_.of(after_, target);
      if (bound > target) {
        next_bound_ = std::min(next_bound_, bound);
      } else {
        insert(after_, bound,
               {.before = layer_.step[index], .chain = static_cast<std::uint32_t>(move.chain)});
      }
    }
    if (!moves_.may_postpone(first)) return;
    moves_.postpone(state_, first, choices_);
    moves_.settle(state_, moves_.first_to_end(state_));
    const Ticks bound = bounds_.of(state_, target);
    if (bound > target) {
      next_bound_ = std::min(next_bound_, bound);
      return;
    }
  }
}

bool Beam::narrow(std::size_t width) {
  std::vector<std::uint32_t> best;
  for (std::size_t index = 0; index < layer_.size(); ++index) {
    if (layer_.is_out[index] == 0) best.push_back(static_cast<std::uint32_t>(index));
  }
  if (best.size() <= width) return false;
  const auto end = best.begin() + static_cast<std::ptrdiff_t>(width);
  std::ranges::nth_element(best, end, {}, [&](std::uint32_t index) {
    return std::tuple(layer_.bound[index], layer_.sum[index], index);
  });
  for (auto cut = end; cut != best.end(); ++cut) layer_.is_out[*cut] = 1;
  return true;
}

bool Beam::has_room() const noexcept {
  const auto bytes = [](const Layer& layer) {
    return layer.words.capacity() * sizeof(Ticks) +
           layer.bound.capacity() * (2 * sizeof(Ticks) + 2 * sizeof(std::uint32_t) + 1) +
           layer.table.capacity() * sizeof(std::uint32_t);
  };
  // A vector that grows has its old memory too.
  return bytes(layer_) + 3 * bytes(next_) + 3 * steps_.capacity() * sizeof(Step) < memory_bytes_ &&
         steps_.size() < kNothing / 2;
}

void Beam::trace_back() {
  std::size_t best = 0;
  makespan_ = std::numeric_limits<Ticks>::max();
  for (std::size_t index = 0; index < layer_.size(); ++index) {
    Ticks end = 0;
    for (std::size_t rank = 0; rank < chains_.ranks(); ++rank) {
      end = std::max(end, moves_.free_at(view(layer_, index), rank));
    }
    if (layer_.is_out[index] != 0 || end >= makespan_) continue;
    makespan_ = end;
    best = index;
  }
  found_.clear();
  for (std::uint32_t at = layer_.step[best]; at != kNothing; at = steps_[at].before) {
    found_.push_back(steps_[at].chain);
  }
  std::ranges::reverse(found_);
}

Outcome Beam::run(Ticks target, std::size_t width) {
  steps_.clear();
  next_bound_ = std::numeric_limits<Ticks>::max();
  next_.clear();
  layer_.clear();
  bool is_cut = false;
  state_ = moves_.begin();
  layer_.words = state_;
  layer_.bound = {0};
  layer_.sum = {0};
  layer_.step = {kNothing};
  layer_.linked = {kNothing};
  layer_.is_out = {0};
  for (std::size_t placed = 0; placed < chains_.actions(); ++placed) {
    is_cut |= narrow(width);
    for (std::size_t index = 0; index < layer_.size(); ++index) {
      if (is_stopped_() || !has_room()) return Outcome::kStopped;
      if (layer_.is_out[index] == 0) expand(index, target);
    }
    std::swap(layer_, next_);
    next_.clear();
    if (layer_.size() == 0) return is_cut ? Outcome::kCut : Outcome::kNone;
  }
  trace_back();
  return Outcome::kFound;
}

}  // namespace leat::pipeline
