// A problem of search.h as chains that ranks merge.
//
// Microbatches are alike, so each stage takes them in their order: its F of all of them are a
// *chain*, its B or I are one, and its W. What a schedule decides is how each rank merges the
// chains of its stages. Element k of a chain is its action of microbatch k.
//
// Chains are numbered F of stage 0 to S - 1, I (or B) of S - 1 to 0, W of 0 to S - 1. So element k
// of a chain needs only element k of an earlier chain, or elements before k.
//
// Immutable: thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/search.h"

namespace leat::pipeline {

/// Ticks.
using Ticks = std::int64_t;

/// Element k of a chain begins `delay` or more after the end of element k - back of another.
struct Precedence {
  std::size_t chain = 0;
  Ticks back = 0;
  Ticks delay = 0;
};
/// All actions of one kind at one stage.
struct Chain {
  Op op = Op::kForward;
  std::size_t stage = 0;
  std::size_t rank = 0;
  Ticks length = 0;               ///< of an element
  std::vector<Precedence> needs;  ///< besides the chain's own element before
};
/// What element k of a chain implies: element k - back of `chain`, on the same rank, comes before
/// it; or (behind()) element k + back comes after it.
struct Implied {
  std::size_t chain = 0;
  Ticks back = 0;
};

/// The chains of a problem.
class Chains {
 public:
  /// Throws std::invalid_argument, as search().
  explicit Chains(const SearchProblem& problem);

  /// B.
  [[nodiscard]] Ticks microbatches() const noexcept { return microbatches_; }
  /// S.
  [[nodiscard]] std::size_t stages() const noexcept { return rank_of_.size(); }
  /// R.
  [[nodiscard]] std::size_t ranks() const noexcept { return of_rank_.size(); }
  /// How many chains there are: three for each stage, or two.
  [[nodiscard]] std::size_t size() const noexcept { return chains_.size(); }
  /// The actions of a schedule.
  [[nodiscard]] std::size_t actions() const noexcept {
    return size() * static_cast<std::size_t>(microbatches_);
  }
  /// A chain by its number.
  [[nodiscard]] const Chain& operator[](std::size_t chain) const noexcept { return chains_[chain]; }
  /// The chains of a rank.
  [[nodiscard]] const std::vector<std::size_t>& of_rank(std::size_t rank) const noexcept {
    return of_rank_[rank];
  }
  /// The stages of a rank, in the order of the pipeline.
  [[nodiscard]] const std::vector<std::size_t>& stages_of(std::size_t rank) const noexcept {
    return stages_of_[rank];
  }
  /// The most activations of a rank.
  [[nodiscard]] Ticks limit(std::size_t rank) const noexcept { return limit_[rank]; }
  /// The chain of F of a stage.
  [[nodiscard]] static std::size_t forward(std::size_t stage) noexcept { return stage; }
  /// The chain of B or I of a stage.
  [[nodiscard]] std::size_t backward(std::size_t stage) const noexcept {
    return 2 * stages() - 1 - stage;
  }
  /// The chain whose elements free the activations of a stage: B or W.
  [[nodiscard]] std::size_t frees(std::size_t stage) const noexcept {
    return split_ ? 2 * stages() + stage : backward(stage);
  }
  /// What an element of a chain implies of its rank's elements before it, its own chain's included.
  [[nodiscard]] const std::vector<Implied>& before(std::size_t chain) const noexcept {
    return before_[chain];
  }
  /// As before(), for elements behind it.
  [[nodiscard]] const std::vector<Implied>& behind(std::size_t chain) const noexcept {
    return behind_[chain];
  }

 private:
  void add_needs(const SearchProblem& problem);
  void close();

  Ticks microbatches_ = 0;
  bool split_ = true;
  std::vector<std::size_t> rank_of_;
  std::vector<std::vector<std::size_t>> stages_of_;
  std::vector<Ticks> limit_;
  std::vector<Chain> chains_;
  std::vector<std::vector<std::size_t>> of_rank_;
  std::vector<std::vector<Implied>> before_;
  std::vector<std::vector<Implied>> behind_;
};

}  // namespace leat::pipeline
