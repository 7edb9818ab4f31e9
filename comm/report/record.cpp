#include "leat/comm/report/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace comm_report {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::array<std::string_view, 3> kStates = {"ended", "open", "failed"};  // as Entry::State

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class T>
[[nodiscard]] bool get(std::string_view text, T& value, int base = 10) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base);
  return error == std::errc() && end == last;
}

// What the recorder wrote as this word. What could disturb a terminal becomes a question mark.
std::string decoded(std::string_view word) {
  if (word == "-") return {};
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    char c = word[i];
    unsigned char code = 0;
    if (c == '%' && i + 2 < word.size() && get(word.substr(i + 1, 2), code, 16)) {
      c = static_cast<char>(code);
      i += 2;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += byte < ' ' || byte == 0x7F ? '?' : c;
  }
  return out;
}

// leat-comm-recorder 1 rank R of N pid P host H operations L
bool read_header(const std::vector<std::string_view>& words, Record& to) {
  if (words.size() != 12 || !get(words[3], to.rank) || !get(words[5], to.size)) return false;
  return to.rank >= 0 && to.rank < to.size && to.size <= kMostRanks;
}

// communicator CONTEXT joined|left ranks 0-3,7
bool read_membership(const std::vector<std::string_view>& words, Record& to) {
  Membership one;
  if (words.size() != 5 || !get(words[1], one.context)) return false;
  one.has_left = words[2] == "left";
  for (const std::string_view range : split(words[4], ',')) {
    const std::vector<std::string_view> ends = split(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !get(ends.front(), first) || !get(ends.back(), last)) return false;
    if (first < 0 || last >= to.size) return false;
    for (int rank = first; rank <= last; ++rank) one.members.push_back(rank);
    if (one.members.size() > static_cast<std::size_t>(to.size)) return false;
  }
  to.memberships.push_back(std::move(one));
  return true;
}

// entry context operation reduction dtype count root number peer tag label began ended state
bool read_entry(const std::vector<std::string_view>& words, Record& to) {
  Entry one;
  std::uint64_t count = 0;
  int root = -1;
  if (words.size() != 14 || !get(words[0], one.entry) || !get(words[1], one.context) ||
      !get(words[5], count) || !get(words[6], root) || !get(words[7], one.number) ||
      !get(words[8], one.peer)) {
    return false;
  }
  one.what = decoded(words[2]);
  one.is_send = one.what == "send";
  one.is_recv = one.what == "recv";
  if (words[3] != "sum") one.what += " (" + decoded(words[3]) + ')';
  if (words[2] != "barrier") one.what += " of " + std::to_string(count) + ' ' + decoded(words[4]);
  if (root >= 0) one.what += " from root " + std::to_string(root);
  one.tag = decoded(words[9]);
  one.label = decoded(words[10]);
  const auto state = std::ranges::find(kStates, words[13]);
  if (state == kStates.end()) return false;
  one.state = static_cast<Entry::State>(state - kStates.begin());
  to.entries.push_back(std::move(one));
  return true;
}

// failure mismatch|error peer P operation O tensor T what W
bool read_failure(const std::vector<std::string_view>& words, Record& to) {
  if (words.size() != 10) return false;
  to.failure = (words[1] == "mismatch" ? "mismatch: " : "") + decoded(words[9]);
  return true;
}

bool read_line(std::string_view line, Record& to) {
  if (line.starts_with('#')) return true;
  const std::vector<std::string_view> words = split(line, ' ');
  if (words[0] == "communicator") return read_membership(words, to);
  if (words[0] == "failure") return read_failure(words, to);
  return read_entry(words, to);
}

}  // namespace

std::optional<Record> read_record(const std::string& file, std::string_view text,
                                  std::vector<std::string>& warnings) {
  Record record{.file = file};
  int number = 0;
  const auto warn = [&](const char* what) {
    warnings.push_back(file + ':' + std::to_string(number) + ": " + what);
  };
  const auto next_line = [&]() -> std::optional<std::string_view> {
    ++number;
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  const bool is_recorder = text.starts_with("leat-comm-recorder 1 ");
  const auto header = next_line();
  if (!is_recorder || !header.has_value() || !read_header(split(*header, ' '), record)) {
    warn(!is_recorder          ? "no flight recorder's file (or another version's)"
         : !header.has_value() ? "cut off in its first line"
                               : "no rank, or no number of ranks");
    return std::nullopt;
  }
  while (const auto line = next_line()) {
    if (*line == "end") {
      record.is_whole = true;
      ++number;
      if (!text.empty()) warn("ignored: it is behind the end");
      return record;
    }
    if (!read_line(*line, record)) {
      warn("no line of a flight recorder; read up to here");
      return record;
    }
  }
  warn("cut off; read as far as it goes");
  return record;
}

}  // namespace comm_report
