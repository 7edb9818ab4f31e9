// Reads CSV and grids. A text is read to its end, whatever is wrong with it, so that all faults are
// told together.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/pipeline/text.h"
#include "leat/pipeline/text/in_quotes.h"
#include "leat/pipeline/text/names.h"

namespace leat::pipeline {
namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// The text up to `separator`, which is taken off `rest`; the whole if it has none.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

class Parser {
 public:
  Parser(std::string_view text, std::int32_t microbatches) : microbatches_(microbatches) {
    if (text.starts_with("\xEF\xBB\xBF")) {
      row_ = column_ = 0;
      fail("the text begins with a byte order mark: save it as UTF-8 without one");
      text.remove_prefix(3);
    }
    const std::size_t first = text.find_first_not_of(" \t\r\n(");
    if (first == std::string_view::npos) {
      if (findings_.empty()) fail("the text is empty");
      return;
    }
    is_grid_ = text[first] == '.' || (text[first] >= 'A' && text[first] <= 'Z');
    for (row_ = 0; !text.empty() && findings_.size() < kMostFindings; ++row_) {
      std::string_view line = take(text, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      schedule_.rows.emplace_back();
      if (is_grid_) {
        grid_line(line);
      } else {
        csv_line(line);
      }
    }
    column_ = -1;
    row_ = -1;
    schedule_.stages = greatest_stage_ + 1;
    schedule_.microbatches = microbatches > 0 ? microbatches : greatest_microbatch_ + 1;
    if (findings_.empty() && greatest_stage_ < 0) fail("the text has no action");
  }

  Schedule result(const std::string& file) && {
    if (!findings_.empty()) throw ScheduleError(std::move(findings_), file);
    return std::move(schedule_);
  }

 private:
  void fail(std::string reason) {
    if (findings_.size() < kMostFindings) findings_.push_back({row_, column_, std::move(reason)});
  }

  void csv_line(std::string_view line) {
    if (line.empty()) return;  // a rank without cells
    column_ = 0;
    for (bool more = true; more; ++column_) {
      more = line.find(',') != std::string_view::npos;
      const std::string_view text = trimmed(take(line, ','));
      cell(text == "\"\"" ? std::string_view() : text);  // a lone idle cell, as Python writes it
    }
  }

  void grid_line(std::string_view line) {
    column_ = 0;
    for (line = trimmed(line); !line.empty(); ++column_) {
      const std::string_view text = line.substr(0, line.find_first_of(kBlanks));
      line = trimmed(line.substr(text.size()));
      cell(text == "." ? std::string_view() : text);
    }
  }

  void cell(std::string_view text) {
    Cell& cell = schedule_.rows.back().emplace_back();
    if (text.empty()) return;
    for (bool more = true; more;) {
      more = text.find('+') != std::string_view::npos;
      const std::string_view part = trimmed(take(text, '+'));
      if (part.starts_with('(')) {
        pair(part, cell);
      } else {
        action(part, cell);
      }
    }
  }

  void pair(std::string_view text, Cell& cell) {
    const std::size_t close = text.find(')');
    const std::string_view name = is_grid_ ? std::string_view() : kPairName;
    if (close == std::string_view::npos || text.substr(close + 1) != name) {
      fail(in_quotes(text) + " is no pair: (0F5;7B0)OVERLAP_F_B is one");
      return;
    }
    std::string_view inside = text.substr(1, close - 1);
    const std::string_view first = trimmed(take(inside, ';'));
    const std::size_t before = cell.size();
    action(first, cell);
    action(trimmed(inside), cell);
    if (cell.size() != before + 2) return;  // told
    Action& forward = cell[before];
    const Op second = cell[before + 1].op;
    forward.paired =
        forward.op == Op::kForward && (second == Op::kBackward || second == Op::kBackwardInput);
    if (!forward.paired) fail(in_quotes(text) + " is no forward (F) and then a backward (B or I)");
  }

  /// Reads digits off `text`. -1: there are none, or the number is too great: told.
  std::int32_t number(std::string_view& text, std::string_view what, std::string_view whole) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view number = text.substr(0, digits);
    text.remove_prefix(digits);
    std::int32_t value = -1;
    if (number.empty()) {
      fail(in_quotes(whole) + " has no " + std::string(what));
    } else if (std::from_chars(number.data(), number.data() + digits, value).ec != std::errc() ||
               value > kGreatestNumber) {
      fail(in_quotes(whole) + ": the " + std::string(what) + " is greater than " +
           std::to_string(kGreatestNumber));
      return -1;
    } else if (number.size() > (is_grid_ ? 2 : 1) && number.front() == '0') {
      fail(in_quotes(whole) + ": the " + std::string(what) + " has a 0 too many in front");
      return -1;
    }
    return value;
  }

  void action(std::string_view whole, Cell& cell) {
    std::string_view text = whole;
    Action action;
    action.stage = is_grid_
                       ? static_cast<std::int32_t>(std::min<std::int64_t>(row_, kGreatestNumber))
                       : number(text, "stage in front", whole);
    if (action.stage < 0) return;
    const std::size_t letters =
        std::min(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), text.size());
    const std::optional<Op> op =
        op_named(is_grid_ ? kGridNames : kCsvNames, text.substr(0, letters));
    text.remove_prefix(letters);
    if (!op) {
      fail(in_quotes(whole) + " is no action");
      return;
    }
    action.op = *op;
    if (has_microbatch(action.op)) {
      action.microbatch = number(text, "microbatch", whole);
      if (action.microbatch < 0) return;
      if (microbatches_ > 0 && action.microbatch >= microbatches_) {
        fail(in_quotes(whole) + ": there are " + std::to_string(microbatches_) +
             " microbatches, from 0");
      }
    }
    if (!text.empty()) {
      fail(in_quotes(whole) + " has something behind: " + in_quotes(text));
      return;
    }
    greatest_stage_ = std::max(greatest_stage_, action.stage);
    greatest_microbatch_ = std::max(greatest_microbatch_, action.microbatch);
    cell.push_back(action);
  }

  Schedule schedule_;
  std::vector<Finding> findings_;
  std::int32_t microbatches_;
  bool is_grid_ = false;
  std::int64_t row_ = -1;
  std::int64_t column_ = -1;
  std::int32_t greatest_stage_ = -1;
  std::int32_t greatest_microbatch_ = -1;
};

}  // namespace

Schedule parse(std::string_view text, std::int32_t microbatches, const std::string& file) {
  return Parser(text, microbatches).result(file);
}

}  // namespace leat::pipeline
