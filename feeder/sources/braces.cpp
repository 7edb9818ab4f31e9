// The rules are those of bash's braces.c. An open brace begins an expansion if a } closes it, with
// a comma or ".." before it, not counting what is within inner braces. A } without them is skipped.
#include "leat/feeder/sources/braces.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

using Names = std::vector<std::string>;
constexpr std::size_t kNone = std::string_view::npos;

constexpr std::size_t kMostNames = 1'000'000;
constexpr std::size_t kMostNameBytes = std::size_t{1} << 28;  // of all names
constexpr std::size_t kDeepest = 64;                          // braces within braces
// The most characters that are looked at for a } that is not there: far more than a path has.
constexpr std::size_t kMostInVain = std::size_t{1} << 22;

constexpr std::string_view kDots = "..";

std::optional<std::int64_t> number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool is_letter(std::string_view text) {
  return text.size() == 1 &&
         ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
}

// Whether the numbers of a range with this end get zeros in front.
bool is_padded(std::string_view end) {
  if (end.starts_with('-')) end.remove_prefix(1);
  return end.size() > 1 && end[0] == '0';
}

class Expansion {
 public:
  explicit Expansion(const std::string& whole) : whole_(whole) {}

  // Expands a part of the pattern. `depth`: how many braces are around it.
  [[nodiscard]] Names expand(std::string_view text, std::size_t depth) {
    if (depth > kDeepest) {
      fail("its braces nest more than " + std::to_string(kDeepest) + " deep",
           "name the files with fewer braces");
    }
    Names names(1);
    std::string plain;  // what all names go on with
    for (;;) {
      std::size_t open = 0;
      std::size_t close = kNone;
      for (std::size_t from = 0; close == kNone; from = open + 1) {
        open = find('{', text, from);
        if (open == kNone) break;
        close = find('}', text, open + 1);
        if (close == kNone) count_in_vain(text.size() - open);
      }
      plain += text.substr(0, open);
      const Names some =
          open == kNone ? Names() : choices(text.substr(open + 1, close - open - 1), depth);
      if (some.size() == 1) {
        plain += some[0];
      } else {
        append(names, {plain});
        if (open == kNone) return names;
        append(names, some);
        plain.clear();
      }
      text.remove_prefix(close + 1);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& advice) const {
    no_files(whole_, problem, advice);
  }
  [[noreturn]] void fail_for_many() const {
    fail("its braces stand for more than " + std::to_string(kMostNames) +
             " names, or for names of " + std::to_string(kMostNameBytes) + " bytes",
         "use a wildcard");
  }

  void count_in_vain(std::size_t characters) {
    in_vain_ += characters;
    if (in_vain_ <= kMostInVain) return;
    fail("too many of its braces have no comma and no range", "name the files with fewer braces");
  }

  // Returns the index of the first `wanted`, outside inner braces, at or behind text[from].
  [[nodiscard]] static std::size_t find(char wanted, std::string_view text, std::size_t from) {
    std::size_t level = 0;
    bool may_end = wanted != '}';
    for (std::size_t at = from; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '\\') {
        ++at;
      } else if (c == wanted && level == 0 && may_end) {
        if (c != '{' || at != 0 || !text.substr(1).starts_with('}')) return at;  // {} is itself
      } else if (c == '{') {
        ++level;
      } else if (c == '}' && level > 0) {
        --level;
      } else if (level == 0 && !may_end) {
        const std::string_view rest = text.substr(at);
        may_end = c == ',' || (rest.starts_with(kDots) && !rest.substr(2).starts_with(wanted));
      }
    }
    return kNone;
  }

  // Returns what the braces around `inner` stand for.
  Names choices(std::string_view inner, std::size_t depth) {
    bool is_list = false;
    for (std::size_t at = 0; at < inner.size() && !is_list; ++at) {
      is_list = inner[at] == ',';
      if (inner[at] == '\\') ++at;
    }
    if (!is_list) {
      Names found = range(inner);
      if (found.empty()) found.push_back("{" + std::string(inner) + "}");
      return found;
    }
    Names found;
    for (std::size_t from = 0, comma = 0; comma != kNone; from = comma + 1) {
      comma = find(',', inner, from);
      const std::string_view one = inner.substr(from, comma == kNone ? kNone : comma - from);
      for (std::string& name : expand(one, depth + 1)) found.push_back(std::move(name));
      if (found.size() > kMostNames) fail_for_many();
    }
    return found;
  }

  // Expands "000..012", "1..9..2", "a..e". Returns nothing if `inner` is no range.
  [[nodiscard]] Names range(std::string_view inner) const {
    const std::size_t dots = std::min(inner.find(kDots), inner.size());
    const std::string_view from = inner.substr(0, dots);
    std::string_view to = inner.substr(std::min(dots + kDots.size(), inner.size()));
    std::optional<std::int64_t> step = 1;
    if (const std::size_t more = to.find(kDots); more != kNone) {
      step = number(to.substr(more + kDots.size()));
      to = to.substr(0, more);
    }
    const bool is_letters = is_letter(from) && is_letter(to);
    const auto first = is_letters ? std::optional<std::int64_t>(from[0]) : number(from);
    const auto last = is_letters ? std::optional<std::int64_t>(to[0]) : number(to);
    if (!first || !last || !step) return {};

    const bool is_up = *first <= *last;
    const auto low = static_cast<std::uint64_t>(is_up ? *first : *last);
    const auto high = static_cast<std::uint64_t>(is_up ? *last : *first);
    const auto wide = static_cast<std::uint64_t>(*step);
    const std::uint64_t every = *step == 0 ? 1 : *step < 0 ? 0 - wide : wide;
    const std::size_t width =
        is_padded(from) || is_padded(to) ? std::max(from.size(), to.size()) : 0;
    const std::uint64_t most = (high - low) / every;  // one less than there are
    if (most >= kMostNames || width > kMostNameBytes / (most + 1)) fail_for_many();
    Names found;
    for (std::uint64_t i = 0; i <= most; ++i) {
      const auto value = static_cast<std::int64_t>(is_up ? low + i * every : high - i * every);
      if (is_letters) {
        found.emplace_back(1, static_cast<char>(value));
        continue;
      }
      std::string digits = std::to_string(value);
      if (digits.size() < width) digits.insert(value < 0 ? 1 : 0, width - digits.size(), '0');
      found.push_back(std::move(digits));
    }
    return found;
  }

  // Makes of each name as many as there are endings.
  void append(Names& names, const Names& endings) const {
    if (endings.size() > kMostNames / names.size()) fail_for_many();
    const auto bytes_of = [](const Names& all) {
      std::size_t bytes = 0;
      for (const std::string& one : all) bytes += one.size();
      return bytes;
    };
    if (bytes_of(names) * endings.size() + bytes_of(endings) * names.size() > kMostNameBytes) {
      fail_for_many();
    }
    if (endings.size() == 1) {
      for (std::string& name : names) name += endings[0];
      return;
    }
    Names longer;
    longer.reserve(names.size() * endings.size());
    for (const std::string& name : names) {
      for (const std::string& ending : endings) longer.push_back(name + ending);
    }
    names = std::move(longer);
  }

  const std::string& whole_;  // for messages
  std::size_t in_vain_ = 0;
};

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  return Expansion(pattern).expand(pattern, 0);
}

}  // namespace leat::feeder
