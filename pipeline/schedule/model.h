// The costs of a model as JSON:
//
//   {"forward": 2, "backward_input": [2, 3, 2, 2], "backward_weight": 1, "activation_bytes": 4096,
//    "link": 1, "capacity": 2}
//
// Numbers are whole. A number stands for all stages, a list has one for each. What is left out is
// as in a CostModel: 1, no link, any capacity.
#pragma once

#include <string>
#include <string_view>

#include "leat/pipeline/simulate.h"

namespace schedule_program {

/// Reads the text of `file`. Throws leat::pipeline::ScheduleError with what is wrong and where: row
/// and column of the text, from 0.
[[nodiscard]] leat::pipeline::CostModel parse_model(std::string_view text,
                                                    const std::string& file = {});

}  // namespace schedule_program
