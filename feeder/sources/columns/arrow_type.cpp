#include "leat/feeder/sources/columns/arrow_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

using Kind = ArrowType::Kind;

struct Known {
  std::string_view format;  // its beginning, if it ends in ':' or in '*'
  ArrowType type;
};
constexpr std::array kKnown{
    Known{"c", {Kind::kNumbers, DType::kInt8}},
    Known{"C", {Kind::kNumbers, DType::kUint8}},
    Known{"s", {Kind::kNumbers, DType::kInt16}},
    Known{"S", {Kind::kNumbers, DType::kUint16}},
    Known{"i", {Kind::kNumbers, DType::kInt32}},
    Known{"I", {Kind::kNumbers, DType::kUint32}},
    Known{"l", {Kind::kNumbers, DType::kInt64}},
    Known{"L", {Kind::kNumbers, DType::kUint64}},
    Known{"e", {Kind::kNumbers, DType::kFloat16}},
    Known{"f", {Kind::kNumbers, DType::kFloat32}},
    Known{"g", {Kind::kNumbers, DType::kFloat64}},
    Known{"b", {Kind::kBits}},
    // Dates of days and of milliseconds; times of day in s, ms, us, ns; timestamps; durations.
    Known{"tdD", {Kind::kNumbers, DType::kInt32}},
    Known{"tdm", {Kind::kNumbers, DType::kInt64}},
    Known{"tts", {Kind::kNumbers, DType::kInt32}},
    Known{"ttm", {Kind::kNumbers, DType::kInt32}},
    Known{"ttu", {Kind::kNumbers, DType::kInt64}},
    Known{"ttn", {Kind::kNumbers, DType::kInt64}},
    Known{"ts*", {Kind::kNumbers, DType::kInt64}},
    Known{"tD*", {Kind::kNumbers, DType::kInt64}},
    Known{"z", {Kind::kBytes}},
    Known{"u", {Kind::kBytes}},
    Known{"Z", {.kind = Kind::kBytes, .is_wide = true}},
    Known{"U", {.kind = Kind::kBytes, .is_wide = true}},
    Known{"vz", {Kind::kViews}},
    Known{"vu", {Kind::kViews}},
    Known{"w:", {Kind::kFixedBytes}},
    Known{"+w:", {Kind::kFixedList}},
    Known{"+l", {Kind::kList}},
    Known{"+L", {.kind = Kind::kList, .is_wide = true}},
    Known{"+s", {Kind::kStruct}},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kRefusedNames{{
    {"n", "null"},
    {"d:*", "decimal"},
    {"+u*", "union"},
    {"+m", "map"},
    {"+r", "run-end encoded"},
    {"+v*", "list view"},
    {"+l", "list"},
    {"+L", "large list"},
    {"+s", "struct"},
    {"ti*", "interval"},
}};

bool is(std::string_view format, std::string_view known) {
  if (known.back() == '*') return format.starts_with(known.substr(0, known.size() - 1));
  return known.back() == ':' ? format.starts_with(known) : format == known;
}

}  // namespace

std::int64_t ArrowType::buffers() const noexcept {
  switch (kind) {
    case kFixedList:
    case kStruct: return 1;
    case kBytes:
    case kViews: return 3;
    default: return 2;
  }
}

ArrowType arrow_type(const char* format) {
  const std::string_view text(format);
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& one) { return is(text, one.format); });
  if (known == kKnown.end()) return {};
  ArrowType type = known->type;
  if (known->format.back() == ':') {
    const std::string_view digits = text.substr(known->format.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), type.extent);
  }
  return type;
}

std::string arrow_type_name(const char* format) {
  const std::string code = start_of(format);
  for (const auto& [known, name] : kRefusedNames) {
    if (is(format, known)) return std::string(name) + " (\"" + code + "\")";
  }
  return "\"" + code + "\"";
}

}  // namespace leat::feeder
