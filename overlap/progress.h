// Which phase a run is in, and how far, shown while it runs.
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

/// Shows the phase of a run on the standard error: on a terminal as one line that is redrawn ten
/// times a second, elsewhere, where that is asked for, as a line a second. The line goes when a
/// pause begins. Thread-safe, but for begin() and pause(), which one thread or fiber calls.
class Progress {
 public:
  /// What to write where the standard error is no terminal.
  enum class Elsewhere : bool { kNothing, kLines };
  explicit Progress(Elsewhere elsewhere) : elsewhere_(elsewhere) {}
  ~Progress() { pause(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `heading` comes before the phase from now on; empty: nothing does.
  void set_heading(std::string heading);
  /// `phase` begins: `total` steps, or times that something is measured.
  void begin(Phase phase, std::uint64_t total);
  /// So many of the phase's total are done.
  void advance(std::uint64_t done);
  /// Leaves the standard error alone until the next phase begins.
  void pause();

 private:
  [[nodiscard]] std::vector<std::string> lines(const leat::feeder::LiveStyle* terminal);

  const Elsewhere elsewhere_;
  std::mutex mutex_;  // guards what follows, but for the view
  std::string heading_;
  bool is_paused_ = true;
  Phase phase_ = Phase::kLink;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::unique_ptr<leat::feeder::LiveView> view_;
};

}  // namespace overlap
