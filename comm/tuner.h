// Tuner: finds the partition and the credit of an exchange while it trains.
//
// Example
//   const auto tuner = std::make_shared<comm::Tuner>();      // equal on all ranks
//   comm::GradientExchange exchange(communicator, gradients, {.tuner = tuner});
//   ...                                                      // train; some 80 steps later:
//   std::puts(tuner->report().c_str());                      // on rank 0
//
// A pattern search (Hooke and Jeeves, JACM'61) over the logarithms of both: from the best so far it
// looks two octaves up and down, then one, then half of one. The best are measured again, so that
// one lucky step does not decide. Then the setting is fixed.
//
// Each measurement takes two steps: after a change the first one is dropped.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "leat/csp/clock.h"

namespace leat::comm {

/// Options of a Tuner.
struct TunerOptions {
  /// The least value of both, in bytes; more than 0.
  std::size_t least_bytes = std::size_t{256} << 10;
  std::size_t most_partition_bytes = std::size_t{64} << 20;
  std::size_t most_credit_bytes = std::size_t{256} << 20;
  /// The first setting, moved into the range above.
  std::size_t partition_bytes = std::size_t{4} << 20;
  std::size_t credit_bytes = std::size_t{16} << 20;
  int measurements = 40;  ///< in all, 20 to 1,000
};

/// The search. It knows nothing of exchanges: its caller runs steps with setting() and tells
/// measured() how long they took. Not thread-safe.
class Tuner {
 public:
  /// What is chosen. A value.
  struct Setting {
    std::size_t partition_bytes = 0;
    std::size_t credit_bytes = 0;
    friend bool operator==(const Setting&, const Setting&) = default;
  };

  /// Throws std::invalid_argument for an option out of range.
  explicit Tuner(const TunerOptions& options = {});

  /// The setting to be measured next; once is_done(), the one to stay with.
  [[nodiscard]] Setting setting() const noexcept { return candidates_[at_].setting; }
  /// Records how long a step with setting() took. No effect once is_done().
  void measured(Duration step);
  /// Whether all measurements were made.
  [[nodiscard]] bool is_done() const noexcept { return left_ == 0; }
  /// A sentence: what was chosen, and how it compares with the first setting.
  [[nodiscard]] std::string report() const;

 private:
  // Of a point of the logarithmic grid, whose unit is half an octave.
  struct Candidate {
    int partition = 0;
    int credit = 0;
    Setting setting;
    double total = 0;  // of its measurements, in ns
    int times = 0;
    [[nodiscard]] double mean() const noexcept { return total / times; }
  };

  [[nodiscard]] std::size_t candidate(int partition, int credit);
  void look_around();
  void choose_finalists();

  const TunerOptions options_;
  int last_partition_ = 0, last_credit_ = 0;  // of the grid
  std::vector<Candidate> candidates_;
  std::size_t at_ = 0;                   // that is measured now
  std::size_t centre_ = 0;               // of the search
  int step_ = 4;                         // of the search, in units; 0: it has ended
  std::vector<std::size_t> to_measure_;  // next; the last first
  std::vector<std::size_t> finalists_;
  std::size_t round_ = 0;  // of the finalists
  int left_;
};

}  // namespace leat::comm
