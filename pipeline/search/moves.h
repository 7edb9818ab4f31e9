// States of a search, and the moves between them.
//
// A state is what a prefix of a schedule leaves: for each chain, how many elements are placed; for
// each rank, when it is free; and when values under way arrive. Moves are those of Giffler and
// Thompson (1960): of all elements that could be placed next, the one that can end first names a
// rank. One of the elements that could begin there before that end is placed on it. Such moves
// reach an optimum: any other choice leaves a gap that the element that ends first would fit.
//
// With several stages on a rank, that argument fails for an F: it could take the activation that
// another stage's F needs earlier. So an F may also be postponed. Then none of the elements that
// could have begun before its end is the rank's next.
//
// Immutable: thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "leat/pipeline/search/chains.h"

namespace leat::pipeline {

/// A state: Moves::words() numbers. The first Chains::size() of them say how many elements of each
/// chain are placed; the rest is Moves' own.
using State = std::vector<Ticks>;
/// A state in a row of states.
using StateView = std::span<const Ticks>;

/// The moves of a problem.
class Moves {
 public:
  /// Makes states that are settled after each move. `chains` outlives this.
  explicit Moves(const Chains& chains) : Moves(chains, 0, /*settled=*/true) {}
  /// Microbatch k enters the pipeline no sooner than `pace` k. States that are not `settled` keep
  /// all values that are under way.
  Moves(const Chains& chains, Ticks pace, bool settled);

  /// The size of a state.
  [[nodiscard]] std::size_t words() const noexcept { return words_; }
  /// The state in which nothing is placed.
  [[nodiscard]] State begin() const;
  /// When a rank is free.
  [[nodiscard]] Ticks free_at(StateView state, std::size_t rank) const noexcept {
    return state[free_ + rank];
  }
  /// When element `k`, placed, of a chain arrives on the rank that needs it.
  [[nodiscard]] Ticks arrival(StateView state, std::size_t chain, Ticks k) const noexcept {
    const auto age = static_cast<std::size_t>(state[chain] - 1 - k);
    return age < kept_[chain].places ? state[kept_[chain].first + age] : 0;
  }

  /// An element that can be placed next.
  struct Move {
    std::size_t chain = 0;
    Ticks begin = -1;  ///< -1: there is none
    Ticks end = 0;
    [[nodiscard]] bool exists() const noexcept { return begin >= 0; }
  };
  /// The next element of a chain.
  [[nodiscard]] Move next(StateView state, std::size_t chain) const noexcept;
  /// The move that ends first: it names the rank that decides.
  [[nodiscard]] Move first_to_end(StateView state) const noexcept;
  /// The moves to choose from, `first` among them.
  void choices(StateView state, const Move& first, std::vector<Move>& out) const;
  /// Whether postponing has to be tried as well.
  [[nodiscard]] bool may_postpone(const Move& first) const noexcept;

  /// Places an element.
  void place(State& state, const Move& move) const;
  /// Decides that the rank of `first` does none of `choices` next.
  void postpone(State& state, const Move& first, const std::vector<Move>& choices) const;
  /// Raises the times of a state, whose first_to_end() is `first`, as far as that changes nothing:
  /// so that states compare.
  void settle(State& state, const Move& first) const;

  /// Whether all that follows `worse` could follow `better`, at the same times. Both have the same
  /// elements placed.
  [[nodiscard]] bool dominates(StateView better, StateView worse) const noexcept;

 private:
  // The last values of a chain that another rank waits for: when they arrive.
  struct Kept {
    std::size_t first = 0;  // word
    std::size_t places = 0;
    std::size_t user = 0;  // chain
    Ticks delay = 0;
  };
  static constexpr std::size_t kBits = 62;

  [[nodiscard]] bool fits(StateView state, const Chain& chain) const noexcept;
  [[nodiscard]] bool is_barred(StateView state, std::size_t chain) const noexcept;

  const Chains& chains_;
  Ticks pace_;
  std::size_t free_ = 0;    // word of the first rank
  std::size_t barred_ = 0;  // word of the first bits: chains that are not their rank's next
  std::size_t words_ = 0;
  std::vector<Kept> kept_;
};

}  // namespace leat::pipeline
