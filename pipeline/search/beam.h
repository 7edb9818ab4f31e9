// A search breadth first, layer by layer: layer n has the states in which n actions are placed.
//
// Of two states of a layer with the same elements placed, one that is no worse in any time replaces
// the other. A state whose bound is above the target is left out. If a layer is wider than the
// beam, the states with the smallest bounds go on. If no layer was wider and no schedule is found,
// there is none.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "leat/pipeline/search/bounds.h"
#include "leat/pipeline/search/chains.h"
#include "leat/pipeline/search/moves.h"

namespace leat::pipeline {

/// How a search ended.
enum class Outcome : std::uint8_t {
  kFound,    ///< a schedule no longer than the target
  kNone,     ///< there is none
  kCut,      ///< none is found; the beam was too narrow to say more
  kStopped,  ///< time or memory was used up
};

/// The search of a problem, repeated for one target after the other.
class Beam {
 public:
  /// All of them outlive this. `is_stopped` is asked often.
  Beam(const Chains& chains, const Moves& moves, Bounds& bounds, std::size_t memory_bytes,
       std::function<bool()> is_stopped);

  /// Looks for a schedule that takes `target` at most, with layers of `width` at most.
  [[nodiscard]] Outcome run(Ticks target, std::size_t width);
  /// After kFound: the chains in the order in which their elements were placed.
  [[nodiscard]] const std::vector<std::size_t>& found() const noexcept { return found_; }
  /// After kFound: its makespan.
  [[nodiscard]] Ticks makespan() const noexcept { return makespan_; }
  /// After kNone: the least bound above the target that a state had. No schedule is shorter.
  [[nodiscard]] Ticks next_bound() const noexcept { return next_bound_; }

 private:
  static constexpr std::uint32_t kNothing = UINT32_MAX;
  // What was placed, and after what: for the way back to the beginning.
  struct Step {
    std::uint32_t before = kNothing;
    std::uint32_t chain = 0;
  };
  // The states of a layer; those with the same hash are linked.
  struct Layer {
    std::vector<Ticks> words;
    std::vector<Ticks> bound;
    std::vector<Ticks> sum;  // of the bounds of all ranks
    std::vector<std::uint32_t> step;
    std::vector<std::uint32_t> linked;
    std::vector<char> is_out;  // dominated, or outside the beam
    std::vector<std::uint32_t> table;
    [[nodiscard]] std::size_t size() const noexcept { return bound.size(); }
    void clear();
  };

  [[nodiscard]] StateView view(const Layer& layer, std::size_t index) const;
  [[nodiscard]] std::uint32_t& bucket(Layer& layer, StateView state) const;
  template <typename Visit>
  void for_each_alike(StateView state, const Visit& visit);
  [[nodiscard]] bool is_dominated(StateView state);
  void insert(StateView state, Ticks bound, Step step);
  void rehash(Layer& layer) const;
  void expand(std::size_t index, Ticks target);
  [[nodiscard]] bool narrow(std::size_t width);
  [[nodiscard]] bool has_room() const noexcept;
  void trace_back();

  const Chains& chains_;
  const Moves& moves_;
  Bounds& bounds_;
  std::size_t memory_bytes_;
  std::function<bool()> is_stopped_;
  Layer layer_;
  Layer next_;
  std::vector<Step> steps_;
  State state_;  // scratch
  State after_;
  std::vector<Moves::Move> choices_;
  std::vector<std::size_t> found_;
  Ticks makespan_ = 0;
  Ticks next_bound_ = 0;
};

}  // namespace leat::pipeline
