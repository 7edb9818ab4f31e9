#include "leat/pipeline/schedule/table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

namespace schedule_program {
namespace {

std::string shown(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value.get<double>());
  return text.data();
}

std::string field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  auto text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char one : text) quoted += one == '"' ? "\"\"" : std::string(1, one);
  return quoted + '"';
}

std::string grid(const Table& table) {
  std::vector<std::vector<std::string>> lines = {table.columns};
  for (const std::vector<Json>& row : table.rows) {
    std::ranges::transform(row, std::back_inserter(lines.emplace_back()), shown);
  }
  std::vector<std::size_t> widths(table.columns.size());
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::size_t end = 0;  // where the column ends
    const std::size_t begin = text.size();
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool is_text = !table.rows.empty() && table.rows[0][i].is_string();  // to the left
      const std::string blanks(widths[i] - line[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (is_text ? line[i] + blanks : blanks + line[i]);
      if (!line[i].empty()) end = text.size() - (is_text ? blanks.size() : 0);
    }
    text.resize(std::max(begin, end));
    text += '\n';
  }
  return text;
}

}  // namespace

Json to_json(const Table& table) {
  Json all = Json::array();
  for (const std::vector<Json>& row : table.rows) {
    Json& one = all.emplace_back(Json::object());
    for (std::size_t i = 0; i < row.size(); ++i) one[table.columns[i]] = row[i];
  }
  return all;
}

std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_text(const Table& table, Format format) {
  if (format == Format::kGrid) return grid(table);
  if (format == Format::kJson) return to_line(to_json(table));
  std::string text;
  const auto line = [&](const auto& row, const auto& one) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + one(row[i]);
    text += '\n';
  };
  line(table.columns, field);
  for (const std::vector<Json>& row : table.rows) line(row, field);
  return text;
}

}  // namespace schedule_program
