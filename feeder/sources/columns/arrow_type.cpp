#include "leat/feeder/sources/columns/arrow_type.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

struct KnownType {
  std::string_view format;  // its beginning, if it ends in ':' or in '*'
  ArrowType type;
};
constexpr std::array kKnownTypes{
    KnownType{"c", {ArrowType::kNumbers, DType::kInt8}},
    KnownType{"C", {ArrowType::kNumbers, DType::kUint8}},
    KnownType{"s", {ArrowType::kNumbers, DType::kInt16}},
    KnownType{"S", {ArrowType::kNumbers, DType::kUint16}},
    KnownType{"i", {ArrowType::kNumbers, DType::kInt32}},
    KnownType{"I", {ArrowType::kNumbers, DType::kUint32}},
    KnownType{"l", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"L", {ArrowType::kNumbers, DType::kUint64}},
    KnownType{"e", {ArrowType::kNumbers, DType::kFloat16}},
    KnownType{"f", {ArrowType::kNumbers, DType::kFloat32}},
    KnownType{"g", {ArrowType::kNumbers, DType::kFloat64}},
    KnownType{"b", {ArrowType::kBits}},
    // Dates of days and of milliseconds; times of day in s, ms, us, ns; timestamps; durations.
    KnownType{"tdD", {ArrowType::kNumbers, DType::kInt32}},
    KnownType{"tdm", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"tts", {ArrowType::kNumbers, DType::kInt32}},
    KnownType{"ttm", {ArrowType::kNumbers, DType::kInt32}},
    KnownType{"ttu", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"ttn", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"ts*", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"tD*", {ArrowType::kNumbers, DType::kInt64}},
    KnownType{"z", {ArrowType::kBytes}},
    KnownType{"u", {ArrowType::kBytes}},
    KnownType{"Z", {.kind = ArrowType::kBytes, .is_wide = true}},
    KnownType{"U", {.kind = ArrowType::kBytes, .is_wide = true}},
    KnownType{"vz", {ArrowType::kViews}},
    KnownType{"vu", {ArrowType::kViews}},
    KnownType{"w:", {ArrowType::kFixedBytes}},
    KnownType{"+w:", {ArrowType::kFixedList}},
    KnownType{"+l", {ArrowType::kList}},
    KnownType{"+L", {.kind = ArrowType::kList, .is_wide = true}},
    KnownType{"+s", {ArrowType::kStruct}},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kTypeNames{{
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

bool is_format(std::string_view format, std::string_view known) {
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
  const auto* const known = std::ranges::find_if(
      kKnownTypes, [&](const KnownType& one) { return is_format(text, one.format); });
  if (known == kKnownTypes.end()) return {};
  ArrowType type = known->type;
  if (known->format.back() == ':') {
    const std::string_view digits = text.substr(known->format.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), type.extent);
  }
  return type;
}

std::string arrow_type_name(const char* format) {
  const std::string code = start_of(format);
  for (const auto& [known, name] : kTypeNames) {
    if (is_format(format, known)) return std::string(name) + " (\"" + code + "\")";
  }
  return "\"" + code + "\"";
}

}  // namespace leat::feeder
