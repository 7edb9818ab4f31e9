#include "bench/pipeline/stages.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "leat/gpu/host_model.h"

namespace pipeline_bench {
namespace {

using leat::pipeline::Microbatch;

// What a value is of: the output of a stage and microbatch, or the gradient of its input.
std::uint64_t tag(std::int32_t stage, const Microbatch& m, bool is_gradient) {
  return (std::uint64_t{is_gradient} << 63) | (static_cast<std::uint64_t>(stage + 1) << 32) |
         static_cast<std::uint32_t>(m.index);
}

leat::Duration now() { return leat::SteadyClock::instance().now().time_since_epoch(); }

}  // namespace

void compute(std::int64_t operations) {
  volatile float kept = 1;
  float x = kept;
  for (std::int64_t i = 0; i < operations; ++i) x = x * 0.999F + 0.5F;
  kept = x;
}

std::int64_t operations_for(leat::Duration duration) {
  constexpr std::int64_t kTried = 1 << 20;
  leat::Duration shortest = leat::Duration::max();
  for (int turn = 0; turn < 5; ++turn) {
    const leat::Duration start = now();
    compute(kTried);
    shortest = std::min(shortest, now() - start);
  }
  return kTried * duration.count() / std::max<std::int64_t>(1, shortest.count());
}

leat::pipeline::StageMemory MeasuredStage::memory() const {
  return {.input = options_.index == 0 ? 0 : options_.bytes,
          .output = options_.index == options_.stages - 1 ? 0 : options_.bytes};
}

void MeasuredStage::forward(const Microbatch& m) {
  run(m, kForward, m.input.data(), tag(m.stage - 1, m, false), m.output.data(),
      tag(m.stage, m, false));
}

void MeasuredStage::backward_input(const Microbatch& m) {
  run(m, kBackwardInput, m.output_gradient.data(), tag(m.stage + 1, m, true),
      m.input_gradient.data(), tag(m.stage, m, true));
}

void MeasuredStage::backward_weight(const Microbatch& m) {
  run(m, kBackwardWeight, m.input.data(), tag(m.stage - 1, m, false), nullptr, 0);
}

void MeasuredStage::run(const Microbatch& m, Function function, const std::byte* from,
                        std::uint64_t expected, std::byte* to, std::uint64_t written) {
  ++calls_[function];
  if (m.stage != options_.index) is_wrong_ = true;
  if (options_.work == Work::kNothing) return;
  m.stream.launch_host(
      [this, function, from, expected, to, written] {
        const leat::Duration start = now();
        std::uint64_t found = expected;
        if (from != nullptr) std::memcpy(&found, from, sizeof found);
        if (found != expected) is_wrong_ = true;
        if (to != nullptr) std::memcpy(to, &written, sizeof written);
        if (options_.work == Work::kComputes) {
          compute(options_.operations[function]);
          taken_[function].push_back(now() - start);
        }
      },
      options_.work == Work::kModelled ? options_.times[function] : leat::Duration::zero());
}

bool MeasuredStage::is_right(std::uint64_t calls) const {
  return !is_wrong_ &&
         std::ranges::all_of(calls_, [calls](std::uint64_t count) { return count == calls; });
}

leat::Duration MeasuredStage::median(Function function) const {
  std::vector<leat::Duration> sorted = taken_[function];
  if (sorted.empty()) return leat::Duration::zero();
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

void MeasuredStage::forget_times() {
  for (std::vector<leat::Duration>& one : taken_) one.clear();
}

bool Parts::are_right(std::uint64_t calls) const {
  return std::ranges::all_of(stages, [calls](const auto& one) { return one->is_right(calls); });
}

Parts make_parts(const leat::pipeline::Schedule& schedule,
                 const std::function<MeasuredStage::Options(std::int32_t)>& options) {
  Parts parts;
  for (std::size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    parts.ranks.push_back({.device = leat::gpu::open("host:" + std::to_string(rank))});
  }
  const std::vector<int> ranks = leat::pipeline::ranks_of_stages(schedule);
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    parts.stages.push_back(std::make_unique<MeasuredStage>(options(stage)));
    const auto rank = static_cast<std::size_t>(ranks[static_cast<std::size_t>(stage)]);
    parts.ranks[rank].stages.push_back(parts.stages.back().get());
  }
  return parts;
}

}  // namespace pipeline_bench
