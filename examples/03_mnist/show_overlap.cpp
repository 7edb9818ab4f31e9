#include "examples/03_mnist/show_overlap.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/03_mnist/kernels.h"
#include "examples/03_mnist/network.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

namespace mnist {
namespace {

using leat::feeder::Field;
using leat::feeder::Lease;

// A shorter step could be hidden behind the time that the host needs to enqueue it.
constexpr double kLeastStep = 0.5e-3;
// So that a step takes milliseconds on a CPU as well.
constexpr std::size_t kMostSamples = 1024;
constexpr std::size_t kMostGrown = 8192;
constexpr std::size_t kProbePadding = std::size_t{8} << 10;
constexpr std::size_t kProbeSteps = 40;
// Bytes per second: the network's weights cross the link as well, before the first step.
constexpr double kLeastBandwidth = 10e6;
constexpr std::size_t kWarmUp = 8;  // steps
constexpr std::size_t kMostSteps = 400;
constexpr double kRun = 0.15;  // seconds of computing, twice each way
constexpr std::size_t kLeastSteps = 16;
constexpr std::size_t kTraced = 64;
// Overlapped, a step takes half as long on an idle machine. Elsewhere, other work disturbs.
constexpr double kLeastShare = 0.48;
constexpr double kMostShare = 0.75;
constexpr std::size_t kShownSteps = 3;

// The images with bytes behind them that nobody reads: they only make the copies longer.
class Padded final : public leat::feeder::Dataset {
 public:
  Padded(const leat::feeder::Mnist& images, std::size_t padding)
      : images_(images), fields_(images.fields().begin(), images.fields().end()) {
    if (padding == 0) return;
    fields_.push_back(
        {"padding", leat::feeder::DType::kUint8, {static_cast<std::int64_t>(padding)}});
  }
  [[nodiscard]] std::string_view name() const noexcept override { return images_.name(); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return images_.size(); }
  void read(std::uint64_t index, leat::feeder::Sample& out) const override {
    out.copy(0, std::as_bytes(images_.images().subspan(index * kPixels, kPixels)));
    out.copy(1, std::as_bytes(images_.labels().subspan(index, 1)));
  }

 private:
  const leat::feeder::Mnist& images_;
  std::vector<Field> fields_;
};

struct Loop {
  leat::gpu::Device device;
  std::size_t batch_size;
  std::size_t padding;  // bytes of each image
  std::size_t steps;
};

struct Run {
  leat::feeder::Stats stats;
  std::shared_ptr<leat::feeder::Trace> trace;
};

// The loop of main.cpp, without its output.
Run run(const Loop& loop, const Options& options, const leat::feeder::Mnist& training,
        std::size_t prefetch_depth) {
  const leat::gpu::Stream stream(loop.device);
  Network network(stream, loop.batch_size, options.seed);
  const Padded data(training, loop.padding);
  const auto trace = std::make_shared<leat::feeder::Trace>(
      leat::feeder::TraceOptions{.skip = kWarmUp, .batches = kTraced});
  leat::feeder::Prefetcher feed(data, loop.device,
                                {.batch_size = loop.batch_size,
                                 .prefetch_depth = prefetch_depth,
                                 .workers = options.workers,
                                 .seed = options.seed,
                                 .last_batch = leat::feeder::LastBatch::kDrop,
                                 .trace = trace,
                                 .sample_every = 1});
  std::size_t step = 0;
  for (std::uint64_t epoch = 0; step < loop.steps; ++epoch) {
    for (Lease& batch : feed.epoch(epoch, stream)) {
      network.train_step(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                         batch.size(), {.learning_rate = options.learning_rate});
      if (++step == kWarmUp) feed.reset_stats();
      if (step == loop.steps) break;
    }
  }
  stream.sync();
  return {.stats = feed.stats(), .trace = trace};
}

std::string number(double value, int digits) {  // behind the point
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// Three significant digits: their ratio is that of the verdict.
std::string milliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return number(value, value < 0.9995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + " ms";
}

}  // namespace

std::string verdict(double in_turns, double overlapped) {
  return milliseconds(in_turns) + " a step in turns, " + milliseconds(overlapped) +
         " overlapped: " + number(in_turns / overlapped, 1) + " times as fast";
}

std::string show_overlap(const Options& options, const leat::gpu::Device& device,
                         const leat::feeder::Mnist& training) {
  const bool is_modelled = device.capabilities().host_kernels;
  Loop loop{.device = device,
            .batch_size = std::min(options.batch_size, kMostSamples),
            .padding = is_modelled ? 0 : kProbePadding,
            .steps = kProbeSteps};
  leat::feeder::Stats probe = run(loop, options, training, 2).stats;
  const std::size_t most = std::min<std::size_t>(kMostGrown, training.size());
  while (probe.t_c < kLeastStep && 2 * loop.batch_size <= most) {
    loop.batch_size *= 2;
    probe = run(loop, options, training, 2).stats;
  }
  constexpr const char* kTooFew = "There are too few images to show overlap.\n";
  if (!probe.is_measured()) return kTooFew;

  // What is copied while a step computes. Other work on the machine lengthens some steps by far.
  const double compute = std::min(probe.t_c, probe.step.p50);
  const double bandwidth = is_modelled ? std::max(probe.batch_bytes / compute, kLeastBandwidth)
                                       : probe.batch_bytes / probe.t_x;
  const double bytes = bandwidth * compute;
  const double image = bytes / static_cast<double>(loop.batch_size) - kPixels - 1;
  loop.padding = static_cast<std::size_t>(std::max(image, 0.0));
  std::string how = "batches are padded to " + number(1e-6 * bytes, 1) + " MB";
  if (is_modelled) {
    loop.device = leat::gpu::open_host({.h2d_bandwidth = bandwidth});
    how = "the link is modelled: " + number(1e-6 * bandwidth, 1) + " MB/s";
  }
  loop.steps = kWarmUp + static_cast<std::size_t>(
                             std::clamp(kRun / compute, double{kLeastSteps}, double{kMostSteps}));
  Run in_turns = run(loop, options, training, 1);
  Run overlapped = run(loop, options, training, 2);
  const auto again = [&](Run& best, std::size_t prefetch_depth) {
    Run other = run(loop, options, training, prefetch_depth);
    if (other.stats.t_step < best.stats.t_step) best = std::move(other);
  };
  again(in_turns, 1);
  again(overlapped, 2);
  if (!in_turns.stats.is_measured() || !overlapped.stats.is_measured()) return kTooFew;
  const double one = in_turns.stats.t_step;
  const double other = overlapped.stats.t_step;
  constexpr double kRoom = 1.05;  // the steps drawn are not exactly the mean ones
  const leat::feeder::TimelineOptions drawn{
      .steps = kShownSteps,
      .length = std::chrono::duration_cast<leat::Duration>(
          std::chrono::duration<double>(kRoom * kShownSteps * std::max(one, other)))};
  return "The same loop with copies that take as long as the computing\n(" + how +
         "). Three steps in turns, then overlapped:\n\n"
         "In turns (prefetch_depth 1): batch 1 is copied, then computed on; then batch 2.\n" +
         in_turns.trace->timeline(drawn) +
         "\nOverlapped (prefetch_depth 2): batch 2 is copied while batch 1 is computed on.\n" +
         overlapped.trace->timeline(drawn) + "\n" + verdict(one, other) + "\n" +
         (kLeastShare * one <= other && other <= kMostShare * one
              ? ""
              : "Other work keeps this machine busy; try again when it is idle.\n");
}

}  // namespace mnist
