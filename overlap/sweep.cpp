#include "leat/overlap/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "leat/feeder/stats/figures.h"
#include "leat/overlap/bare_loop.h"
#include "leat/overlap/progress.h"

namespace overlap {
namespace {

constexpr std::size_t kCells = std::size(kRatios) * std::size(kSteps) * std::size(kDepths);
constexpr double kLeastSteps = 20;
constexpr double kMostSteps = 2000;
// How much a copy's time may differ from the cell's Tx, as a share of it.
constexpr double kTolerance = 0.05;

// Returns why a cell whose copy takes t_x is left out; empty: it is measured.
std::string why_not_measured(const Shape& shape, double t_x, const Link& link, std::size_t devices,
                             const leat::feeder::Dataset* data) {
  std::string batch =
      "a batch would be " + leat::feeder::bytes_text(static_cast<double>(shape.batch_bytes()));
  if (link.bytes_per_second <= 0) return "copies take no time";
  if (shape.batch_bytes() > kMostBatchBytes) return batch;
  const std::uint64_t samples = data == nullptr ? 0 : data->size() / devices;
  if (data != nullptr &&
      2 * shape.batch_size > samples) {  // an epoch's first step is never sampled
    return batch + ", " + std::to_string(shape.batch_size) + " samples; of two such batches " +
           std::string(data->name()) + ", with " + std::to_string(samples) +
           " samples for each device, has not enough";
  }
  const double actual = static_cast<double>(shape.batch_bytes()) / link.bytes_per_second;
  if (std::abs(actual / t_x - 1) <= kTolerance) return "";
  return batch + (data == nullptr ? ", the least" : ", of whole samples") + ", whose copy takes " +
         leat::feeder::time_text(actual);
}

}  // namespace

Shape shape_of(const Shape& base, double ratio, leat::Duration step, std::size_t depth,
               const Link& link, Batches batches) {
  const double longer = std::chrono::duration<double>(step).count();
  double t_x = ratio < 1 ? ratio * longer : longer;
  const double bytes =
      std::max(t_x * link.bytes_per_second, 64.0 * static_cast<double>(base.tensors));
  Shape shape = base;
  if (batches == Batches::kOfWholeSamples) {
    const auto sample = static_cast<double>(base.sample_bytes);
    shape.batch_size =
        std::max<std::size_t>(static_cast<std::size_t>(std::llround(bytes / sample)), 1);
    t_x = static_cast<double>(shape.batch_bytes()) / link.bytes_per_second;
  } else {
    shape.batch_size = 1;
    shape.sample_bytes = static_cast<std::size_t>(std::llround(bytes));
  }
  shape.t_c = leat::Duration(std::llround(1e9 * t_x / ratio));
  shape.prefetch_depth = depth;
  return shape;
}

const SweepCell* Sweep::find(std::size_t depth, leat::Duration step, double ratio) const {
  const auto found = std::ranges::find_if(cells, [&](const SweepCell& cell) {
    return cell.depth == depth && cell.step == step && cell.ratio == ratio;
  });
  return found == cells.end() ? nullptr : &*found;
}

std::vector<const Measurement*> Sweep::detailed() const {
  std::vector<const Measurement*> found;
  for (const SweepCell& cell : cells) {
    if (cell.is_measured() && !cell.result->trace.empty()) found.push_back(&*cell.result);
  }
  return found;
}

Sweep sweep(const std::vector<leat::gpu::Device>& devices, const Shape& base,
            const SweepOptions& options, const leat::feeder::Dataset* data) {
  const Link link{.bytes_per_second = link_peak(devices.at(0), [](std::uint64_t) {})};
  Sweep done;
  for (const std::size_t depth : kDepths) {
    for (const leat::Duration step : kSteps) {
      for (const double ratio : kRatios) {
        const double each = std::chrono::duration<double>(step).count();
        const double steps = std::clamp(options.seconds / each, kLeastSteps, kMostSteps);
        const bool is_detailed =
            ratio == kDetailedRatio && step == kDetailedStep && depth <= kMostDetailedDepth;
        const Effort effort{.steps = static_cast<std::uint64_t>(steps),
                            .warm_up = static_cast<std::uint64_t>(kLeastSteps / 4),
                            .trace = is_detailed ? options.trace : 0,
                            .link_peak = link.bytes_per_second,
                            .live = false,
                            .progress = options.progress};
        SweepCell cell{.ratio = ratio, .step = step, .depth = depth, .result = {}, .why_not = {}};
        const Shape shape =
            shape_of(base, ratio, step, depth, link,
                     data == nullptr ? Batches::kOfOneSample : Batches::kOfWholeSamples);
        const std::string why_not =
            why_not_measured(shape, ratio < 1 ? ratio * each : each, link, devices.size(), data);
        if (options.progress != nullptr) {
          options.progress->set_heading("cell " + std::to_string(done.cells.size() + 1) + " of " +
                                        std::to_string(kCells) + ", ");
        }
        if (why_not.empty()) {
          cell.result = measure(devices, shape, effort, data);
        } else {
          cell.why_not = "Tx " + leat::feeder::time_text(ratio < 1 ? ratio * each : each) +
                         ", depth " + std::to_string(depth) + ": not measured; " + why_not;
        }
        if (options.after_cell) options.after_cell(cell);
        done.cells.push_back(std::move(cell));
      }
    }
  }
  return done;
}

}  // namespace overlap
