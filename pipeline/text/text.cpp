#include "leat/pipeline/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "leat/pipeline/text/names.h"

namespace leat::pipeline {
namespace {

// A wider cell of a grid is out of line: it would make its column as wide on every rank.
constexpr std::size_t kMostAligned = 100;

std::string in_csv(const Action& action) {
  std::string text = std::to_string(action.stage);
  text += kCsvNames[static_cast<std::size_t>(action.op)];
  if (has_microbatch(action.op)) text += std::to_string(action.microbatch);
  return text;
}

std::string in_grid(const Action& action, bool with_stage) {
  std::string text = with_stage ? std::to_string(action.stage) : std::string();
  text += kGridNames[static_cast<std::size_t>(action.op)];
  if (!has_microbatch(action.op)) return text;
  if (action.microbatch < 10) text += '0';
  return text + std::to_string(action.microbatch);
}

/// Parts of a cell: actions, and pairs as one. `text_of` prints an action.
template <class TextOf>
std::vector<std::string> parts_of(const Cell& cell, std::string_view pair_name, TextOf&& text_of) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    std::string text = text_of(cell[i]);
    if (cell[i].paired && i + 1 < cell.size()) {
      text.insert(0, 1, '(');
      text += ';' + text_of(cell[++i]) + ')';
      text += pair_name;
    }
    parts.push_back(std::move(text));
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "+") + part;
  return text;
}

std::string grid_cell(const Cell& cell, bool with_stage) {
  if (cell.empty()) return ".";
  auto parts =
      parts_of(cell, "", [&](const Action& action) { return in_grid(action, with_stage); });
  // What computes keeps its order, which means something.
  const auto computing =
      std::ranges::count_if(cell, [](const Action& action) { return computes(action.op); });
  if (computing < 2) std::ranges::sort(parts);
  return joined(parts);
}

/// The row of each line, if each row has one stage and each stage one row: that of stage 0 first.
/// Otherwise empty.
std::vector<std::size_t> rows_by_stage(const Schedule& schedule) {
  std::vector<std::size_t> rows(schedule.rows.size(), schedule.rows.size());
  for (std::size_t row = 0; row < schedule.rows.size(); ++row) {
    std::int32_t stage = -1;
    for (const Cell& cell : schedule.rows[row]) {
      for (const Action& action : cell) {
        if (stage >= 0 && action.stage != stage) return {};
        stage = action.stage;
      }
    }
    if (stage < 0 || static_cast<std::size_t>(stage) >= rows.size()) return {};
    std::size_t& place = rows[static_cast<std::size_t>(stage)];
    if (place != schedule.rows.size()) return {};
    place = row;
  }
  return rows;
}

}  // namespace

ScheduleError::ScheduleError(std::vector<Finding> findings, const std::string& file)
    : Error(to_string(findings, file)), findings_(std::move(findings)) {}

Schedule read_schedule(const std::filesystem::path& file, std::int32_t microbatches) {
  const auto fail = [&](const std::string& why) {
    throw Error("cannot read " + file.string() + ": " + why);
  };
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) fail("it is a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) fail(std::strerror(errno));
  return parse(text.str(), microbatches, file.string());
}

std::string to_string(const Action& action) { return in_csv(action); }

std::string to_string(const Cell& cell) { return joined(parts_of(cell, kPairName, in_csv)); }

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const Row& row : schedule.rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column > 0) text += ',';
      text += to_string(row[column]);
    }
    if (row.size() == 1 && row.front().empty()) text += "\"\"";  // as Python's csv has it
    text += "\r\n";
  }
  return text;
}

std::string to_grid(const Schedule& schedule,
                    const std::vector<std::pair<std::size_t, std::size_t>>& marked) {
  std::vector<std::size_t> rows = rows_by_stage(schedule);
  const bool with_stage = rows.empty();
  if (with_stage) {
    for (std::size_t row = 0; row < schedule.rows.size(); ++row) rows.push_back(row);
  }
  std::vector<std::pair<std::size_t, std::size_t>> marks = marked;
  std::ranges::sort(marks);
  std::vector<std::vector<std::string>> cells(rows.size());
  std::vector<std::size_t> widths;
  for (std::size_t line = 0; line < rows.size(); ++line) {
    for (const Cell& cell : schedule.rows[rows[line]]) {
      std::string text = grid_cell(cell, with_stage);
      const std::size_t column = cells[line].size();
      if (std::ranges::binary_search(marks, std::pair(rows[line], column))) {
        text.insert(0, 1, '[');
        text += ']';
      }
      if (column == widths.size()) widths.push_back(0);
      if (text.size() <= kMostAligned) widths[column] = std::max(widths[column], text.size());
      cells[line].push_back(std::move(text));
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : cells) {
    for (std::size_t column = 0; column < line.size(); ++column) {
      text += line[column];
      if (column + 1 == line.size()) break;
      text.append(std::max(widths[column], line[column].size()) + 1 - line[column].size(), ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace leat::pipeline
