// The figures for programs: those of the table, by name, in seconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "leat/overlap/measure.h"
#include "leat/overlap/sweep.h"

namespace overlap {

/// Where figures come from.
struct Provenance {
  std::string command;
  std::string machine;  // CPU, kernel
  std::string date;     // ISO 8601
};

/// Returns {"leat-overlap": 1, "command": ..., "runs": [...], "sweep": [...]}, indented, with a
/// newline at the end. The keys are the names of measure.h. null: not known. `sweep` may be null.
[[nodiscard]] std::string json_report(const Provenance& from, const std::vector<Measurement>& runs,
                                      const Sweep* sweep);

}  // namespace overlap
