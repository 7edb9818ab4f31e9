#include "leat/feeder/stats/figures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>

namespace leat::feeder {
namespace {

struct Unit {
  double size;
  const char* name;
};

// Returns `value` with three significant digits, in the largest unit that is not above it, or in
// the last unit if all are.
std::string in_units(double value, std::span<const Unit> units) {
  const Unit* unit = &units.back();
  for (const Unit& one : units) {
    if (value >= 0.9995 * one.size) {  // not "1000 ns"
      unit = &one;
      break;
    }
  }
  const double number = value / unit->size;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s",
                number < 9.995   ? 2
                : number < 99.95 ? 1
                                 : 0,
                number, unit->name);
  return text.data();
}

}  // namespace

std::string time_text(double seconds) {
  static constexpr std::array<Unit, 4> kUnits = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  return in_units(seconds, kUnits);
}

std::string bytes_text(double bytes) {
  static constexpr std::array<Unit, 4> kUnits = {{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}};
  return in_units(bytes, kUnits);
}

std::string count_text(double count, const char* unit) {
  const std::string bytes = count > 0 ? bytes_text(count) : "?";
  return bytes.substr(0, bytes.find_last_not_of(" B") + 1) + " " + unit;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

std::string percent_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

std::vector<std::string> wrapped(const std::string& text, const std::string& indent,
                                 std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.push_back(indent + word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

std::string paragraph(const std::string& text) {
  std::string lines;
  for (const std::string& line : wrapped(text, "  ", 80)) lines += line + "\n";
  return lines;
}

std::string why_no_efficiency(double t_c, double t_x, double t_step) {
  const double shorter = std::min(t_c, t_x);
  const double longer = std::max(t_c, t_x);
  if (t_step <= 0 || shorter >= kLittle * longer || longer < kNearlyAll * t_step) return "";
  return std::string("Overlap can save at most ") + (t_x <= t_c ? "Tx" : "Tc") + ", " +
         percent_text(shorter / t_step) + " of the step: OE says nothing here.";
}

bool is_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const locale = std::getenv(name);
    if (locale != nullptr && *locale != '\0') return strcasestr(locale, "utf") != nullptr;
  }
  return false;  // "C.UTF-8" and "de_DE.utf8" are
}

}  // namespace leat::feeder
