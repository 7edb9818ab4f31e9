// What was measured, for programs: the same figures as the table, by name, in seconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// How a run came about.
struct Provenance {
  std::string command;
  std::string machine;  // CPU, kernel
  std::string date;     // ISO 8601
};

/// {"leat-overlap": 1, "command": ..., "runs": [...], "sweep": [...]}, indented, with a newline at
/// the end. What a figure is, measure.h says under the same name;
/// null: not known.
[[nodiscard]] std::string json(const Provenance& from, const std::vector<Measured>& runs,
                               const Sweep* sweep);

}  // namespace overlap
