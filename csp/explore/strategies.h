// In which order schedules are tried. See csp/explore.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/explore/simulation.h"

namespace leat {

/// One given schedule; and the first alternative beyond it.
class Replay : public Strategy {
 public:
  explicit Replay(Decisions decisions) : decisions_(std::move(decisions)) {}
  std::size_t choose(const ChoicePoint& point) override;

 private:
  const Decisions decisions_;
  std::size_t next_ = 0;
  std::uint64_t index_ = 0;
};

/// Random ones: PCT, and now and then a random walk.
class Sampling : public Strategy {
 public:
  explicit Sampling(std::uint64_t seed) : random_(seed) {}
  /// Before each run. `choices`: about how many choices one has.
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
  // The larger goes first. Changed ones are below all others.
  std::array<std::uint64_t, kMostThreads> priority_{};
  std::vector<std::uint64_t> changes_at_;
};

/// All with at most so many preemptions, depth first.
class Exhaustive : public Strategy {
 public:
  /// `remembers`: leaves out what was reached before. To be without is for tests.
  explicit Exhaustive(int preemptions, bool remembers = true)
      : preemptions_(preemptions), remembers_(remembers) {}
  /// After each run: prepares the next. False if that was the last.
  bool next();
  std::size_t choose(const ChoicePoint& point) override;

 private:
  // What has not been tried yet at one choice.
  struct Open {
    std::uint64_t index;
    std::size_t decisions;  // before it: the first so many of prefix_
    std::uint64_t untried;  // alternatives, as bits
  };
  /// Whether the state was reached before with at least as many preemptions left; remembers it.
  bool seen(std::uint64_t state, int left);
  void grow();

  struct Seen {
    std::uint64_t state = 0;
    int left = -1;
  };

  const int preemptions_;
  const bool remembers_;
  int bound_ = 0;  // first all schedules without a preemption, then those with one, ...
  Decisions prefix_;
  std::vector<Open> open_;
  std::vector<Seen> seen_ = std::vector<Seen>(1024);
  std::size_t seen_count_ = 0;
  std::uint64_t more_ = 0;  // alternatives that a larger bound would allow

  // The present run.
  std::uint64_t index_ = 0;
  std::size_t followed_ = 0;
  int left_ = 0;
  bool known_ = false;  // from here it goes as another one did
};

}  // namespace leat
