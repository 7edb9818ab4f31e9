// A lower bound of the length of schedules that go on from a state.
//
// Each element has a head (it begins no sooner) and a tail (what is to come after its end). They
// are the longest ways through what elements need, and what each rank has to do before or after it.
// A rank that may interrupt its elements does the one with the longest tail first (Jackson 1955,
// Carlier 1982). The time when the last tail then ends is a bound.
//
// Not thread-safe: one for each search.
#pragma once

#include <cstddef>
#include <vector>

#include "leat/pipeline/search/chains.h"
#include "leat/pipeline/search/moves.h"

namespace leat::pipeline {

/// The bounds of a problem.
class Bounds {
 public:
  /// Both outlive this.
  Bounds(const Chains& chains, const Moves& moves);

  /// A lower bound of the makespan of schedules from `state`. Stops looking once it is above
  /// `enough`.
  [[nodiscard]] Ticks of(StateView state, Ticks enough);
  /// After of(): the sum of the bounds of all ranks. Of two states, the one with less is the more
  /// promising.
  [[nodiscard]] Ticks sum() const noexcept { return sum_; }
  /// What is to come after the end of an element.
  [[nodiscard]] Ticks tail(std::size_t chain, Ticks k) const noexcept {
    return tails_[at(chain, k)];
  }

 private:
  [[nodiscard]] std::size_t at(std::size_t chain, Ticks k) const noexcept {
    return chain * static_cast<std::size_t>(chains_.microbatches()) + static_cast<std::size_t>(k);
  }
  void find_tails();
  [[nodiscard]] Ticks longest_way(StateView state);
  [[nodiscard]] Ticks busiest_rank(StateView state, std::size_t rank);

  // Where a rank's schedule with interruptions stands in a chain.
  struct Front {
    Ticks head = 0;  // of the element
    Ticks tail = 0;
    Ticks left = 0;
    Ticks length = 0;  // of all of the chain
    std::size_t element = 0;
    std::size_t end = 0;  // behind the chain's last
  };

  const Chains& chains_;
  const Moves& moves_;
  std::vector<Ticks> heads_;  // of all elements; no meaning for elements that are placed
  std::vector<Ticks> tails_;
  std::vector<Front> fronts_;
  Ticks sum_ = 0;
};

}  // namespace leat::pipeline
