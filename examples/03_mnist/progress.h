// Progress of an epoch: a live line on a terminal, a line per epoch elsewhere and where TERM is
// unset or "dumb".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "examples/03_mnist/kernels.h"

namespace mnist {

/// One at a time. Ctrl-C, where nobody else minds it, ends the live line before the program.
class Progress {
 public:
  /// Of `epochs` epochs of `steps` steps. Writes to stdout; whatever does throws as
  /// flush_output() does.
  Progress(std::uint64_t epochs, std::uint64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void start_epoch(std::uint64_t epoch);
  /// A step was enqueued. Redraws the live line a few times a second. What it counts is enqueued,
  /// not done: the device is behind by as many steps as the prefetcher's slots allow, and to know
  /// how many, the loop would have to wait for it.
  void step(std::size_t samples);
  /// The epoch is over: prints its line.
  void finish_epoch(const Metrics& metrics);

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  const bool live_;
  bool minds_interrupt_ = false;
  const std::uint64_t epochs_;
  const std::uint64_t steps_;
  std::uint64_t epoch_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  Clock::time_point started_;
  Clock::time_point drawn_;
};

}  // namespace mnist
