// What is refused before the first step. Ranks of several processes also find out whether they run
// the same.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/stage.h"

namespace leat::pipeline {

/// Throws std::invalid_argument.
[[noreturn]] void refuse(const std::string& what);

/// Collective. Returns if no rank gives a failure, and all have the same schedule, capacity and
/// most_samples. Otherwise every rank throws: its failure, or an Error that names the ranks.
void agree(const comm::Communicator& ranks, const Schedule& schedule,
           const ExecutorOptions& options, const std::exception_ptr& failure);

/// Collective, of ranks that agree. Returns the bytes of each boundary, from stage s to s + 1.
/// `own` has the memory of this rank's stages, by their numbers, and zeros for others. Throws
/// std::invalid_argument on every rank if the two sides of a boundary differ.
[[nodiscard]] std::vector<std::size_t> boundaries(const comm::Communicator& ranks,
                                                  const std::vector<StageMemory>& own);

/// As above, for stages that are all in this process.
[[nodiscard]] std::vector<std::size_t> boundaries(const std::vector<StageMemory>& all);

}  // namespace leat::pipeline
