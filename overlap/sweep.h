// The grid of a sweep: how the overlap depends on Tx / Tc, on the length of the step, on the depth.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/overlap/measure.h"

namespace overlap {

/// Tx / Tc.
inline constexpr double kRatios[] = {0.1, 0.5, 0.9, 1, 1.1, 2};
/// max(Tx, Tc): what a step takes where the two overlap perfectly.
inline constexpr leat::Duration kSteps[] = {
    std::chrono::microseconds(500), std::chrono::milliseconds(1), std::chrono::microseconds(3500),
    std::chrono::milliseconds(20), std::chrono::milliseconds(300)};
inline constexpr std::size_t kDepths[] = {1, 2, 3, 4};

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
};

/// A device's link, as far as a sweep needs to know it: how many bytes it copies in a time.
struct Link {
  double bytes_per_second = 0;
};

/// The shape whose copy takes `ratio` of Tc, over that link, and the longer of both `step`; all
/// else as `base`.
[[nodiscard]] Shape shape_of(const Shape& base, double ratio, leat::Duration step,
                             std::size_t depth, const Link& link);

/// A cell whose batch would be larger is left out, and says so: all its slots together would not
/// fit.
constexpr std::size_t kMostBatchBytes = std::size_t{2} << 30;

/// Measures the grid, each cell for about `seconds` (but at least 20 steps of each loop), and calls
/// `progress` after each. As measure().
[[nodiscard]] Sweep sweep(const std::vector<leat::gpu::Device>& devices, const Shape& base,
                          double seconds, const std::function<void(const Point&)>& progress);

}  // namespace overlap
