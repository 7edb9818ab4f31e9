#include "leat/pipeline/schedule.h"

#include <algorithm>

namespace leat::pipeline {

std::string to_string(const std::vector<Finding>& findings, const std::string& file) {
  std::string text;
  const auto line = [&](const std::string& what) {
    if (!text.empty()) text += '\n';
    text += (file.empty() ? "" : file + ": ") + what;
  };
  for (const Finding& one : findings) {
    std::string where;
    if (one.row >= 0) where = "row " + std::to_string(one.row);
    if (one.column >= 0) where += ", column " + std::to_string(one.column);
    line(where.empty() ? one.reason : where + ": " + one.reason);
  }
  if (findings.size() >= kMostFindings) line("there may be more");
  return text;
}

std::vector<int> ranks_of_stages(const Schedule& schedule) {
  std::vector<int> ranks(static_cast<std::size_t>(schedule.stages), -1);
  for (std::size_t row = 0; row < schedule.rows.size(); ++row) {
    for (const Cell& cell : schedule.rows[row]) {
      for (const Action& action : cell) {
        int& rank = ranks[static_cast<std::size_t>(action.stage)];
        if (rank < 0) rank = static_cast<int>(row);
      }
    }
  }
  return ranks;
}

bool is_lowered(const Schedule& schedule) noexcept {
  return std::ranges::any_of(schedule.rows, [](const Row& row) {
    return std::ranges::any_of(row, [](const Cell& cell) {
      return std::ranges::any_of(cell, [](const Action& action) { return transfers(action.op); });
    });
  });
}

}  // namespace leat::pipeline
