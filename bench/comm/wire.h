// A training step in real time on a wire that is measured first: what the link model's formulas
// say about it, and what it takes.
//
// Example (every rank, on a fiber)
//   const auto samples = bench::measure_all_reduces(communicator, sizes, 5);
//   const bench::WireFit fit = bench::fit_wire(samples);
//   for (const bench::WireCase& one : bench::wire_cases(communicator.size())) {
//     const auto times = bench::run_steps(communicator, one.instance, 7);
//     ...  // beside bench::expected_step(one, ...), on a plain thread
//   }
//
// Computing is modelled: a rank sleeps on the scheduler's clock for as long as it would take. So
// ranks that share a core do not take computing time from each other.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/comm/step.h"
#include "leat/comm/communicator.h"
#include "leat/csp/clock.h"

namespace bench {

/// How long an operation took that carries so many bytes on each line.
struct WireSample {
  double bytes = 0;
  double nanoseconds = 0;
};

/// The wire's figures: an operation takes alpha + bytes / bandwidth.
struct WireFit {
  double alpha = 0;      ///< ns
  double bandwidth = 0;  ///< bytes per second
  double worst = 0;      ///< the largest |fit / sample - 1|
};

/// The least squares of the relative deviations. Throws std::invalid_argument for samples that have
/// not two different sizes, that took no time, or whose time does not grow with their bytes.
[[nodiscard]] WireFit fit_wire(std::span<const WireSample> samples);

/// Measures all_reduces of `sizes` bytes: the median of so many batches of 8 MiB or one operation,
/// behind one that does not count. A sample's bytes are 2 (n-1)/n of its size. Collective.
[[nodiscard]] std::vector<WireSample> measure_all_reduces(const leat::comm::Communicator& ranks,
                                                          std::span<const std::size_t> sizes,
                                                          int repetitions);
/// As above: each rank sends to the next one, and receives from the one before it. Collective.
[[nodiscard]] std::vector<WireSample> measure_sends(const leat::comm::Communicator& ranks,
                                                    std::span<const std::size_t> sizes,
                                                    int repetitions);
/// How long a header takes to all ranks, as a notice does: the median time of a barrier.
/// Collective.
[[nodiscard]] leat::Duration measure_notice(const leat::comm::Communicator& ranks);

/// A row of the table. The instance has no link yet.
struct WireCase {
  std::string name;  ///< "no overlap", "fifo", "bucketed", "priority", "server"
  StepInstance instance;
};

/// The model, under each policy: 64 MB in 20 tensors. What its all-reduces take on `ranks` ranks at
/// 1 Gb/s is what it computes, two thirds of it backward. "server": half of the ranks serve.
[[nodiscard]] std::vector<WireCase> wire_cases(int ranks);

/// What a step takes by the simulator on this wire; the longest of the ranks'. Called on a plain
/// thread.
[[nodiscard]] leat::Duration expected_step(const WireCase& one, const WireFit& wire,
                                           leat::Duration delta);

/// Runs `steps` steps of the instance behind one that does not count, each behind a barrier.
/// Returns the longest time of the ranks for each; a rank that serves gets none. Collective: a rank
/// of the instance for each of the communicator. The link is the communicator's, and bytes are
/// summed: throws std::runtime_error for a wrong sum.
[[nodiscard]] std::vector<leat::Duration> run_steps(const leat::comm::Communicator& ranks,
                                                    const StepInstance& instance, int steps);

}  // namespace bench
