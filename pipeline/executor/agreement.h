// What is refused before the first step; and what the ranks of several processes find out then:
// whether they run the same.
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

/// Collective, of ranks that agree. The bytes of each boundary between stages, s to s + 1; `own`
/// are those of this rank's stages, by the number of the stage, and zero elsewhere. Throws
/// std::invalid_argument on every rank if the two sides of one differ.
[[nodiscard]] std::vector<std::size_t> boundaries(const comm::Communicator& ranks,
                                                  const std::vector<StageMemory>& own);

/// The same of stages that are all here.
[[nodiscard]] std::vector<std::size_t> boundaries(const std::vector<StageMemory>& all);

}  // namespace leat::pipeline
