// A sweep: a grid over Tx / Tc, the length of the step, and the depth.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/dataset.h"
#include "leat/gpu/device.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// Tx / Tc.
inline constexpr double kRatios[] = {0.1, 0.5, 0.9, 1, 1.1, 2};
/// max(Tx, Tc): the time of a step with perfect overlap.
inline constexpr leat::Duration kSteps[] = {
    std::chrono::microseconds(500), std::chrono::milliseconds(1), std::chrono::microseconds(3500),
    std::chrono::milliseconds(20), std::chrono::milliseconds(300)};
inline constexpr std::size_t kDepths[] = {1, 2, 3, 4};

/// The cells that a report shows in detail: where overlap matters most, at depths 1 and 2.
inline constexpr double kDetailedRatio = 1;
inline constexpr leat::Duration kDetailedStep = std::chrono::microseconds(3500);
inline constexpr std::size_t kMostDetailedDepth = 2;

/// One cell of the grid.
struct SweepCell {
  double ratio = 1;
  leat::Duration step{};
  std::size_t depth = 2;
  std::optional<Measurement> result;
  std::string why_not;  // why there is no result

  [[nodiscard]] bool is_measured() const noexcept { return result.has_value(); }
};

struct Sweep {
  std::vector<SweepCell> cells;  // by depth, then step, then ratio

  /// Returns null if the sweep has no such cell.
  [[nodiscard]] const SweepCell* find(std::size_t depth, leat::Duration step, double ratio) const;
  /// Returns the results of the detailed cells that were traced, by depth.
  [[nodiscard]] std::vector<const Measurement*> detailed() const;
};

/// A device's link.
struct Link {
  double bytes_per_second = 0;
};

/// How a batch gets the size whose copy takes the cell's Tx.
enum class Batches : bool {
  kOfOneSample,     // one sample of any size
  kOfWholeSamples,  // samples of the shape's size, as many as come closest
};

/// Returns `base` with batches whose copy over `link` takes `ratio` of Tc, where the longer of the
/// two is `step`. With whole samples, Tc changes as the copy does, to keep the ratio.
[[nodiscard]] Shape shape_of(const Shape& base, double ratio, leat::Duration step,
                             std::size_t depth, const Link& link, Batches batches);

/// The largest batch. Cells with larger batches are left out: their slots would not fit into
/// memory.
constexpr std::size_t kMostBatchBytes = std::size_t{2} << 30;

/// How to measure the grid.
struct SweepOptions {
  double seconds = 1;     // duration of each loop in a cell, about; at least 20 steps
  std::size_t trace = 0;  // batches recorded in the detailed cells; 0: none
  std::function<void(const SweepCell&)> after_cell;  // may be empty
  Progress* progress = nullptr;                      // as Effort::progress
};

/// Measures the grid. SweepCell::why_not says why a cell was left out: its batches would be larger
/// than kMostBatchBytes or smaller than 64 bytes a tensor, or the samples of `data` are too large
/// or too few for them. Requirements and errors are those of measure().
[[nodiscard]] Sweep sweep(const std::vector<leat::gpu::Device>& devices, const Shape& base,
                          const SweepOptions& options, const leat::feeder::Dataset* data = nullptr);

}  // namespace overlap
