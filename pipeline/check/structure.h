// What check() finds besides stops: actions missing, twice, in a wrong place or order.
#pragma once

#include <vector>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// The faults of a schedule, at most kMostFindings, in the order of rows and columns.
[[nodiscard]] std::vector<Finding> faults_of(const Schedule& schedule);

}  // namespace leat::pipeline
