// The grid of a sweep: how the overlap depends on Tx / Tc, on the length of the step, on the depth.
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
/// max(Tx, Tc): what a step takes where the two overlap perfectly.
inline constexpr leat::Duration kSteps[] = {
    std::chrono::microseconds(500), std::chrono::milliseconds(1), std::chrono::microseconds(3500),
    std::chrono::milliseconds(20), std::chrono::milliseconds(300)};
inline constexpr std::size_t kDepths[] = {1, 2, 3, 4};

/// The cells that a report shows in detail: where overlapping matters most, without it and with it.
inline constexpr double kDetailedRatio = 1;
inline constexpr leat::Duration kDetailedStep = std::chrono::microseconds(3500);
inline constexpr std::size_t kMostDetailedDepth = 2;

/// One cell of the grid.
struct Point {
  double ratio = 1;
  leat::Duration step{};
  std::size_t depth = 2;
  std::optional<Measured> result;
  std::string why_not;  // where there is no result

  [[nodiscard]] bool measured() const noexcept { return result.has_value(); }
};

struct Sweep {
  std::vector<Point> points;  // by depth, then step, then ratio

  /// Null where the sweep has no such cell.
  [[nodiscard]] const Point* find(std::size_t depth, leat::Duration step, double ratio) const;
  /// The results of the detailed cells that were traced, by depth.
  [[nodiscard]] std::vector<const Measured*> detailed() const;
};

/// A device's link, as far as a sweep needs to know it: how many bytes it copies in a time.
struct Link {
  double bytes_per_second = 0;
};

/// What copies are made of.
enum class Batches : bool {
  kOfOneSample,     // of any size
  kOfWholeSamples,  // as many of the shape's as come closest
};

/// The shape whose copy takes `ratio` of Tc, over that link, and the longer of both `step`; all
/// else as `base`. Of whole samples, Tc is `step` less or more where the copy is.
[[nodiscard]] Shape shape_of(const Shape& base, double ratio, leat::Duration step,
                             std::size_t depth, const Link& link, Batches batches);

/// A cell whose batch would be larger is left out, and says so: all its slots together would not
/// fit.
constexpr std::size_t kMostBatchBytes = std::size_t{2} << 30;

/// How to go through the grid.
struct SweepOptions {
  double seconds = 1;     // of each loop in a cell, about; but at least 20 steps
  std::size_t trace = 0;  // batches that are recorded in the detailed cells; 0: none
  std::function<void(const Point&)> progress;  // called after each cell
};

/// Measures the grid. Cells for which there are no batches are left out, and say so: those larger
/// than kMostBatchBytes, and smaller than 64 bytes a tensor; where `data` is given, also those that
/// its samples are too large or too few for. As measure().
[[nodiscard]] Sweep sweep(const std::vector<leat::gpu::Device>& devices, const Shape& base,
                          const SweepOptions& options, const leat::feeder::Dataset* data = nullptr);

}  // namespace overlap
