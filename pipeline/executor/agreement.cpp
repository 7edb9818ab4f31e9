#include "leat/pipeline/executor/agreement.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "leat/csp/base/random.h"
#include "leat/csp/error.h"

namespace leat::pipeline {
namespace {

/// A number that two schedules have in common only if they are the same.
std::int64_t fingerprint(const Schedule& schedule) {
  std::uint64_t hash = 0;
  const auto add = [&](std::int64_t number) {
    hash = mix(hash + kRandomStep + static_cast<std::uint64_t>(number));
  };
  add(schedule.stages);
  add(schedule.microbatches);
  for (const Row& row : schedule.rows) {
    add(-1);
    for (const Cell& cell : row) {
      add(-2);
      for (const Action& one : cell) {
        add(one.stage);
        add(static_cast<std::int64_t>(one.op) + (one.paired ? 100 : 0));
        add(one.microbatch);
      }
    }
  }
  return static_cast<std::int64_t>(hash >> 1);
}

}  // namespace

void refuse(const std::string& what) { throw std::invalid_argument("leat: pipeline: " + what); }

void agree(const comm::Communicator& ranks, const Schedule& schedule,
           const ExecutorOptions& options, const std::exception_ptr& failure) {
  static constexpr std::size_t kFigures = 4;
  static constexpr std::array<const char*, kFigures> kNames = {"that it can run", "the schedule",
                                                               "the capacity", "most_samples"};
  const std::array<std::int64_t, kFigures> mine = {
      failure == nullptr ? 0 : 1, fingerprint(schedule), options.capacity.value_or(-1),
      static_cast<std::int64_t>(options.most_samples)};
  std::vector<std::int64_t> all(kFigures * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(mine, all).await();
  if (failure != nullptr) std::rethrow_exception(failure);
  for (std::size_t figure = 0; figure < kFigures; ++figure) {
    for (std::size_t rank = 0; rank < all.size() / kFigures; ++rank) {
      const std::int64_t of_rank = all[kFigures * rank + figure];
      if (figure == 0 ? of_rank == 0 : of_rank == all[figure]) continue;
      throw Error("leat: pipeline: rank " + std::to_string(ranks.rank()) +
                  ": the ranks do not agree on " + kNames[figure] + ": " +
                  (figure == 0 ? "rank " + std::to_string(rank) + " has refused it"
                               : "that of rank " + std::to_string(rank) + " is not rank 0's"));
    }
  }
}

std::vector<std::size_t> boundaries(const comm::Communicator& ranks,
                                    const std::vector<StageMemory>& own) {
  std::vector<std::int64_t> bytes;
  for (const StageMemory& one : own) {
    bytes.push_back(static_cast<std::int64_t>(one.input));
    bytes.push_back(static_cast<std::int64_t>(one.output));
  }
  ranks.all_reduce(bytes, comm::Reduction::kMax).await();
  std::vector<StageMemory> all;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    all.push_back({.input = static_cast<std::size_t>(bytes[i]),
                   .output = static_cast<std::size_t>(bytes[i + 1])});
  }
  return boundaries(all);
}

std::vector<std::size_t> boundaries(const std::vector<StageMemory>& all) {
  std::vector<std::size_t> bytes;
  for (std::size_t stage = 0; stage + 1 < all.size(); ++stage) {
    if (all[stage].output != all[stage + 1].input) {
      refuse("a sample of the output of stage " + std::to_string(stage) + " has " +
             std::to_string(all[stage].output) + " bytes, and one of the input of stage " +
             std::to_string(stage + 1) + " has " + std::to_string(all[stage + 1].input));
    }
    bytes.push_back(all[stage].output);
  }
  return bytes;
}

}  // namespace leat::pipeline
