// How fast a loop is, for the live view (feeder/live.h): arithmetic, without a clock of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "leat/csp/clock.h"

namespace leat::feeder {

/// Batches and samples a second, from release to release: what counts in a fixed time would jump by
/// a whole step, and be 0 where a step takes longer. Over the latest second, or the latest steps
/// where four of them take longer. Not thread-safe.
class LiveRate {
 public:
  struct Rates {
    double batches = 0;
    double samples = 0;
  };

  /// The batch `batches`, counted from 1, was released at `at`; `samples` were in all up to it. Not
  /// every one needs to be told. The same count again has no effect; an instant before the one that
  /// was told last, of another clock, begins anew.
  void add(TimePoint at, std::uint64_t batches, std::uint64_t samples);
  [[nodiscard]] bool is_empty() const noexcept { return releases_.empty(); }
  /// Nothing while no step is known, from one release to another. Where the step under way takes
  /// longer than those before, it counts as if it ended at `now`: the rate falls during a pause.
  [[nodiscard]] std::optional<Rates> rates(TimePoint now) const;

 private:
  struct Release {
    TimePoint at;
    std::uint64_t batches;
    std::uint64_t samples;
  };
  std::deque<Release> releases_;  // the oldest is where the rates count from
};

}  // namespace leat::feeder
