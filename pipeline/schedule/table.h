// Tables for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace schedule_program {

using Json = nlohmann::ordered_json;

/// How a result is written.
enum class Format : std::uint8_t { kGrid, kCsv, kJson };

/// Rows of values: numbers, texts, or null for what there is not.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Json>> rows;
};
/// Aligned columns in which null is "-"; CSV in which null is empty; or a JSON list of objects. A
/// fraction has three decimals in aligned columns.
[[nodiscard]] std::string to_text(const Table& table, Format format);
/// The table as a list of objects.
[[nodiscard]] Json to_json(const Table& table);
/// The JSON as a line of text; bytes that are not UTF-8, which a file's name may have, are
/// replaced.
[[nodiscard]] std::string to_line(const Json& json);

}  // namespace schedule_program
