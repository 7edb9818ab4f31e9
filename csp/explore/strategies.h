// The strategies that decide which schedules are tried. See csp/explore.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/explore/simulation.h"

namespace leat {

/// Follows a given schedule, and takes the first alternative after its end.
class Replay : public Strategy {
 public:
  explicit Replay(Decisions decisions) : decisions_(std::move(decisions)) {}
  std::size_t choose(const ChoicePoint& point) override;

 private:
  const Decisions decisions_;
  std::size_t next_ = 0;
  std::uint64_t index_ = 0;
};

/// Random schedules: three of four by PCT, the fourth a random walk.
class Sampling : public Strategy {
 public:
  explicit Sampling(std::uint64_t seed) : random_(seed) {}
  /// To be called before each run. `choices`: the number of choices in a run, about.
  void begin(std::uint64_t choices);
  std::size_t choose(const ChoicePoint& point) override;

 private:
  static constexpr std::size_t kMostThreads = 32;
  static constexpr std::uint64_t kMostChanges = 4;
  std::uint64_t below(std::uint64_t bound) noexcept;

  std::uint64_t random_;
  std::uint64_t run_ = 0;
  std::uint64_t index_ = 0;
  bool walks_ = false;
  // The thread with the largest priority runs. Changed priorities are below all others.
  std::array<std::uint64_t, kMostThreads> priority_{};
  std::vector<std::uint64_t> changes_at_;
};

/// All schedules with at most `preemptions` preemptions, depth first.
class Exhaustive : public Strategy {
 public:
  /// `remembers`: does not follow a state that was reached before. Only tests turn that off.
  explicit Exhaustive(int preemptions, bool remembers = true)
      : preemptions_(preemptions), remembers_(remembers) {}
  /// To be called after each run: prepares the next one. False if there is none.
  bool next();
  std::size_t choose(const ChoicePoint& point) override;

 private:
  // A choice at which not all alternatives have been tried.
  struct OpenChoice {
    std::uint64_t index;
    std::size_t decisions;  // the number of entries of prefix_ before this choice
    std::uint64_t untried;  // a bit for each alternative
  };
  /// Whether the state was reached before with at least as many preemptions left. Remembers it.
  bool seen(std::uint64_t state, int left);
  void grow();

  struct SeenState {
    std::uint64_t state = 0;
    int left = -1;
  };

  const int preemptions_;
  const bool remembers_;
  int bound_ = 0;  // first all schedules without a preemption, then those with one, ...
  Decisions prefix_;
  std::vector<OpenChoice> open_;
  std::vector<SeenState> seen_ = std::vector<SeenState>(1024);
  std::size_t seen_count_ = 0;
  std::uint64_t more_ = 0;  // number of alternatives that only a larger bound allows

  // The present run.
  std::uint64_t index_ = 0;
  std::size_t followed_ = 0;
  int left_ = 0;
  bool known_ = false;  // the state was reached before: the rest is as in an earlier run
};

}  // namespace leat
