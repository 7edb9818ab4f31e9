#include "leat/overlap/trace/readers/numbers.h"

#include <charconv>
#include <limits>
#include <system_error>

namespace overlap::trace {

std::optional<std::int64_t> decimal(std::string_view text, int power) noexcept {
  // -12.5e3: sign, digits, how many of them are behind the point, exponent.
  std::size_t at = 0;
  const bool is_negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++at;
  __extension__ using Wide = unsigned __int128;
  Wide digits = 0;
  std::int64_t exponent = power;
  bool is_more = false;  // behind the digits that fit
  bool is_behind_point = false;
  bool is_empty = true;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !is_behind_point) {
      is_behind_point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    is_empty = false;
    if (digits < (Wide{1} << 120)) {
      digits = digits * 10 + static_cast<unsigned>(c - '0');
      exponent -= is_behind_point ? 1 : 0;
    } else {
      is_more = is_more || c != '0';
      exponent += is_behind_point ? 0 : 1;
    }
  }
  if (is_empty) return std::nullopt;
  if (at < text.size()) {
    if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
    ++at;
    if (at + 1 < text.size() && text[at] == '+' && text[at + 1] != '-') ++at;
    int of_text = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), of_text);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
      return std::nullopt;
    // No text has so many digits that they make up for it.
    if (error == std::errc::result_out_of_range)
      of_text = text[at] == '-' ? -1'000'000'000 : 1'000'000'000;
    exponent += of_text;
  }
  if (digits == 0) return 0;
  constexpr auto kMost = static_cast<Wide>(std::numeric_limits<std::int64_t>::max());
  for (; exponent > 0 && digits <= kMost; --exponent) digits *= 10;
  if (exponent > 0) return std::nullopt;
  Wide divisor = 1;
  for (; exponent < 0 && digits >= divisor; ++exponent) {
    if (divisor > (Wide{1} << 124) / 10) return 0;  // digits are below 2^124, a fifth of the next
    divisor *= 10;
  }
  if (exponent < 0) return 0;  // less than a tenth
  const Wide quotient = digits / divisor;
  const Wide twice = 2 * (digits - quotient * divisor);
  const bool is_up = twice > divisor || (twice == divisor && (is_more || (quotient & 1) != 0));
  const Wide rounded = quotient + (is_up ? 1U : 0U);
  if (rounded > kMost) return std::nullopt;
  return is_negative ? -static_cast<std::int64_t>(rounded) : static_cast<std::int64_t>(rounded);
}

template <class Number>
std::optional<Number> number_of(std::string_view text) noexcept {
  const auto whole = [](std::string_view digits) -> std::optional<Number> {
    Number number{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return number;
  };
  if (const std::optional<Number> number = whole(text)) return number;
  const std::optional<std::int64_t> number = decimal(text, 0);
  if (number && (std::numeric_limits<Number>::is_signed || *number >= 0))
    return static_cast<Number>(*number);
  std::size_t begin = text.size();
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  // "stream 7", not "0.5e400" or "-7": those are numbers, and none that fits.
  const bool is_part =
      begin > 0 && std::string_view("+-.eE").find(text[begin - 1]) != std::string_view::npos;
  return is_part ? std::nullopt : whole(text.substr(begin));
}

template std::optional<std::int64_t> number_of(std::string_view text) noexcept;
template std::optional<std::uint64_t> number_of(std::string_view text) noexcept;

}  // namespace overlap::trace
