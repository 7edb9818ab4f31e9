// Shows the phase of a run, and its progress, while it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/feeder/live/view.h"

namespace overlap {

/// The phases of a run, in their order.
enum class Phase : std::uint8_t { kLink, kTx, kTc, kReplay, kSerial, kLoop, kAgain };

/// Shows the phase of a run on the standard error. On a terminal, redraws one line ten times a
/// second, and erases it when a pause begins. Elsewhere, writes a line a second if requested.
/// Thread-safe, except that only one thread or fiber may call begin() and pause().
class Progress {
 public:
  /// What to write if the standard error is not a terminal.
  enum class Elsewhere : bool { kNothing, kLines };
  explicit Progress(Elsewhere elsewhere) : elsewhere_(elsewhere) {}
  ~Progress() { pause(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the text before the phase; empty: none.
  void set_heading(std::string heading);
  /// Begins `phase`, which has `total` steps or repeated measurements.
  void begin(Phase phase, std::uint64_t total);
  /// Reports that `done` of the phase's total are done.
  void advance(std::uint64_t done);
  /// Writes nothing to the standard error until the next phase begins.
  void pause();

 private:
  [[nodiscard]] std::vector<std::string> lines(const leat::feeder::LiveStyle& style);

  const Elsewhere elsewhere_;
  std::mutex mutex_;  // guards the members below except the view
  std::string heading_;
  bool is_paused_ = true;
  Phase phase_ = Phase::kLink;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::unique_ptr<leat::feeder::LiveView> view_;
};

}  // namespace overlap
