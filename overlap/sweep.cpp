#include "leat/overlap/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "leat/feeder/figures.h"

namespace overlap {
namespace {

constexpr double kLeastSteps = 20;
constexpr double kMostSteps = 2000;

}  // namespace

Shape shape_of(const Shape& base, double ratio, leat::Duration step, std::size_t depth,
               const Link& link) {
  const double longer = std::chrono::duration<double>(step).count();
  const double t_x = ratio < 1 ? ratio * longer : longer;
  const double t_c = t_x / ratio;
  Shape shape = base;
  shape.batch_size = 1;
  const double bytes =
      std::max(t_x * link.bytes_per_second, 64.0 * static_cast<double>(base.tensors));
  shape.sample_bytes = static_cast<std::size_t>(std::llround(bytes));
  shape.t_c = leat::Duration(std::llround(1e9 * t_c));
  shape.prefetch_depth = depth;
  return shape;
}

const Point* Sweep::find(std::size_t depth, leat::Duration step, double ratio) const {
  const auto found = std::ranges::find_if(points, [&](const Point& point) {
    return point.depth == depth && point.step == step && point.ratio == ratio;
  });
  return found == points.end() ? nullptr : &*found;
}

Sweep sweep(const std::vector<leat::gpu::Device>& devices, const Shape& base, double seconds,
            const std::function<void(const Point&)>& progress) {
  const Link link{.bytes_per_second = link_peak(devices.at(0))};
  Sweep done;
  for (const std::size_t depth : kDepths) {
    for (const leat::Duration step : kSteps) {
      for (const double ratio : kRatios) {
        const double each = std::chrono::duration<double>(step).count();
        const double steps = std::clamp(seconds / each, kLeastSteps, kMostSteps);
        const Effort effort{.steps = static_cast<std::uint64_t>(steps),
                            .warm_up = static_cast<std::uint64_t>(kLeastSteps / 4),
                            .link_peak = link.bytes_per_second};
        Point point{.ratio = ratio, .step = step, .depth = depth, .result = {}, .why_not = {}};
        const Shape shape = shape_of(base, ratio, step, depth, link);
        if (shape.batch_bytes() > kMostBatchBytes) {
          point.why_not = "Tx " + leat::feeder::time_text(ratio < 1 ? ratio * each : each) +
                          ", depth " + std::to_string(depth) + ": not measured; a batch would be " +
                          leat::feeder::bytes_text(static_cast<double>(shape.batch_bytes()));
        } else {
          point.result = measure(devices, shape, effort);
        }
        progress(point);
        done.points.push_back(std::move(point));
      }
    }
  }
  return done;
}

}  // namespace overlap
