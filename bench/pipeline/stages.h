// Stages for measuring: they do nothing, take a modelled time, or compute on a CPU. What they get
// is checked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/stage.h"

namespace pipeline_bench {

/// F, I and W of a stage.
enum Function : std::uint8_t { kForward, kBackwardInput, kBackwardWeight, kFunctions };

/// What a stage's functions enqueue.
enum class Work : std::uint8_t {
  kNothing,   ///< nothing at all
  kModelled,  ///< a kernel of the host device that takes a time, and no CPU
  kComputes,  ///< a kernel that computes on a CPU, always the same number of operations
};

/// Computes on the calling thread; in proportion to `operations`, each of which needs the one
/// before it.
void compute(std::int64_t operations);
/// How many of them take so long on this machine, now.
[[nodiscard]] std::int64_t operations_for(leat::Duration duration);

/// One stage. Its kernels write which stage and microbatch a value is of, and check that of what
/// they get. Thread-safety: as Stage; figures are read when no step runs.
class MeasuredStage final : public leat::pipeline::Stage {
 public:
  struct Options {
    std::int32_t index = 0;
    std::int32_t stages = 1;
    std::size_t bytes = 1024;  ///< of a value
    Work work = Work::kNothing;
    std::array<leat::Duration, kFunctions> times = {};     ///< of kModelled
    std::array<std::int64_t, kFunctions> operations = {};  ///< of kComputes
  };
  explicit MeasuredStage(const Options& options) : options_(options) {}

  [[nodiscard]] leat::pipeline::StageMemory memory() const override;
  void forward(const leat::pipeline::Microbatch& m) override;
  void backward_input(const leat::pipeline::Microbatch& m) override;
  void backward_weight(const leat::pipeline::Microbatch& m) override;

  /// Whether each function was called so often, and no value was another's.
  [[nodiscard]] bool is_right(std::uint64_t calls) const;
  /// The median time of a function's kernels since the last forget_times(). They compute.
  [[nodiscard]] leat::Duration median(Function function) const;
  void forget_times();

 private:
  void run(const leat::pipeline::Microbatch& m, Function function, const std::byte* from,
           std::uint64_t expected, std::byte* to, std::uint64_t written);

  const Options options_;
  std::array<std::uint64_t, kFunctions> calls_{};
  std::array<std::vector<leat::Duration>, kFunctions> taken_;  // by the stage's stream alone
  std::atomic<bool> is_wrong_ = false;
};

/// The ranks of a process for a schedule, each with a host device of its own, and their stages.
struct Parts {
  std::vector<std::unique_ptr<MeasuredStage>> stages;
  /// For an executor: for one.
  std::vector<leat::pipeline::RankPart> ranks;
  /// As MeasuredStage::is_right, of all.
  [[nodiscard]] bool are_right(std::uint64_t calls) const;
};
/// Makes them: `options` gives the options of a stage. Called on a fiber.
[[nodiscard]] Parts make_parts(
    const leat::pipeline::Schedule& schedule,
    const std::function<MeasuredStage::Options(std::int32_t stage)>& options);

}  // namespace pipeline_bench
