// Does not use glob(3): it needs a large stack, ignores broken links, and does not report which
// directory it could not read.
#include "leat/feeder/sources/files.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr std::size_t kMostNames = 1'000'000;
constexpr std::size_t kMostNameBytes = std::size_t{1} << 28;  // of all names
constexpr std::size_t kDeepest = 64;                          // braces within braces

// A pattern, or the beginning of a long one, for a message.
std::string shown_pattern(const std::string& pattern) {
  constexpr std::size_t kMost = 400;
  const std::string text = printable(std::string_view(pattern).substr(0, kMost));
  return pattern.size() <= kMost ? text : text + "...";
}

[[noreturn]] void fail(const std::string& pattern, const std::string& problem,
                       const std::string& advice) {
  throw Error("leat: no files from \"" + shown_pattern(pattern) + "\": " + problem + "; " + advice);
}

[[noreturn]] void fail_to_read(const std::string& pattern, const fs::path& path,
                               const std::error_code& error) {
  fail(pattern, shown_pattern(path.string()) + ": " + error.message(),
       advice_for_unreadable("it is there and"));
}

// --- Braces. `whole` is the whole pattern, for messages.

[[noreturn]] void fail_for_many(const std::string& whole) {
  fail(whole,
       "its braces stand for more than " + std::to_string(kMostNames) + " names, or for names of " +
           std::to_string(kMostNameBytes) + " bytes",
       "use a wildcard");
}

// Returns the index of the } that closes the { at text[open].
std::size_t closing(std::string_view text, std::size_t open, const std::string& whole) {
  std::size_t depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    if (text[at] == '{' && ++depth > kDeepest) {
      fail(whole, "its braces nest more than " + std::to_string(kDeepest) + " deep",
           "name the files with fewer braces");
    }
    if (text[at] == '}' && --depth == 0) return at;
  }
  fail(whole, "a { has no }", "close it, or name the file without braces");
}

// Splits at the commas that are not within inner braces.
Names alternatives(std::string_view inner) {
  Names found(1);
  std::size_t depth = 0;
  for (const char c : inner) {
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ',' && depth == 0) {
      found.emplace_back();
    } else {
      found.back() += c;
    }
  }
  return found;
}

std::optional<std::uint32_t> number(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// Expands "000..012". Returns nothing if `inner` is not a range of numbers.
Names range(std::string_view inner, const std::string& whole) {
  const std::size_t dots = inner.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string_view from = inner.substr(0, dots);
  const std::string_view to = inner.substr(dots + 2);
  const std::optional<std::uint32_t> first = number(from);
  const std::optional<std::uint32_t> last = number(to);
  if (!first || !last) {
    fail(whole, "{" + std::string(inner) + "} is no range of two numbers",
         "write it as {000..012}, or list the names as {a,b}");
  }
  const auto [low, high] = std::minmax(*first, *last);
  const bool padded = (from.size() > 1 && from[0] == '0') || (to.size() > 1 && to[0] == '0');
  const std::size_t width = padded ? std::max(from.size(), to.size()) : 0;
  const std::size_t count = std::size_t{high} - low + 1;
  if (count > kMostNames || width > kMostNameBytes / count) fail_for_many(whole);
  Names found;
  for (std::uint64_t n = low; n <= high; ++n) {
    const std::string digits = std::to_string(n);
    found.push_back(std::string(width - std::min(width, digits.size()), '0') + digits);
  }
  return found;
}

// Returns the index of the first { at or behind text[from] that stands for several names, and sets
// `close` and `choices`; npos: there is none. Braces without a comma or a range stay as they are.
std::size_t next_choice(const std::string& text, std::size_t from, const std::string& whole,
                        std::size_t& close, Names& choices) {
  for (std::size_t open = from; (open = text.find('{', open)) != std::string::npos; ++open) {
    close = closing(text, open, whole);
    const std::string_view inner = std::string_view(text).substr(open + 1, close - open - 1);
    choices = alternatives(inner);
    if (choices.size() == 1) choices = range(inner, whole);
    if (!choices.empty()) return open;
  }
  return std::string::npos;
}

// Returns the names that a pattern stands for, in order. Without recursion, because a pattern may
// have any number of braces.
Names expand(const std::string& whole) {
  struct Text {
    std::string text;
    std::size_t from;  // its braces before are done
  };
  Names out;
  std::vector<Text> left = {{whole, 0}};  // the next one last
  std::size_t bytes = whole.size();       // of out and left
  const auto add = [&](auto& to, auto&& text, std::size_t size) {
    bytes += size;
    if (bytes > kMostNameBytes || out.size() + left.size() == kMostNames) fail_for_many(whole);
    to.push_back(std::forward<decltype(text)>(text));
  };
  while (!left.empty()) {
    const Text now = std::move(left.back());
    left.pop_back();
    bytes -= now.text.size();
    std::size_t close = 0;
    Names choices;
    const std::size_t open = next_choice(now.text, now.from, whole, close, choices);
    if (open == std::string::npos) {
      add(out, now.text, now.text.size());
      continue;
    }
    std::ranges::reverse(choices);
    for (const std::string& choice : choices) {
      // Alternatives may have braces, too. The numbers of a range have none.
      std::string text = now.text.substr(0, open);
      text.append(choice).append(now.text, close + 1);
      const std::size_t size = text.size();
      add(left, Text{std::move(text), open}, size);
    }
  }
  return out;
}

// --- Directories and wildcards.

bool is_wild(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

// Returns the names in a directory for which `wanted` returns true.
template <class Wanted>
Names list(const fs::path& directory, const std::string& pattern, const Wanted& wanted) {
  const auto failed = [&](const std::error_code& error) {
    if (error) fail_to_read(pattern, directory, error);
  };
  Names names;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  failed(error);
  while (it != fs::directory_iterator{}) {
    std::string name = it->path().filename().string();
    if (wanted(name)) names.push_back(std::move(name));
    it.increment(error);
    failed(error);
  }
  return names;
}

// Returns the type of the file that a path leads to. Throws for a broken link, and, unless
// `may_be_missing`, for a missing file.
fs::file_type type_of(const fs::path& path, const std::string& pattern, bool may_be_missing) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none || (type == fs::file_type::not_found && !may_be_missing)) {
    fail_to_read(pattern, path, error);
  }
  return type;
}

// Adds `path` if it is a file; leaves directories out.
void add_file(const fs::path& path, const std::string& pattern, std::vector<fs::path>& out) {
  const fs::file_type type = type_of(path, pattern, false);
  if (type == fs::file_type::regular) {
    out.push_back(path);
  } else if (type != fs::file_type::directory) {
    fail(pattern, path.string() + " is neither a file nor a directory",
         "remove it, or name the files");
  }
}

void match(const fs::path& before, std::span<const fs::path> parts, const std::string& pattern,
           std::vector<fs::path>& out) {
  std::size_t plain = 0;
  fs::path directory = before;
  while (plain < parts.size() && !is_wild(parts[plain].native())) directory /= parts[plain++];
  if (plain == parts.size()) {  // no wildcard in the rest of the path
    if (type_of(directory, pattern, true) != fs::file_type::not_found) {
      add_file(directory, pattern, out);
    }
    return;
  }
  if (!before.empty() && plain > 0 &&
      type_of(directory, pattern, true) != fs::file_type::directory) {
    return;  // the match has no such subdirectory
  }
  const std::string& wanted = parts[plain].native();
  const Names names =
      list(directory.empty() ? "." : directory, pattern, [&](const std::string& name) {
        return fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) == 0;
      });
  for (const std::string& name : names) {
    const fs::path found = directory / name;
    if (plain + 1 == parts.size()) {
      add_file(found, pattern, out);
    } else if (type_of(found, pattern, false) == fs::file_type::directory) {
      match(found, parts.subspan(plain + 1), pattern, out);
    }
  }
}

// Appends the files that one name stands for. Its braces are expanded.
void find(const std::string& name, std::string_view extension, const std::string& pattern,
          std::vector<fs::path>& out) {
  const fs::path path(name);
  const std::size_t before = out.size();
  if (is_wild(name) && type_of(path, pattern, true) == fs::file_type::not_found) {
    const std::vector<fs::path> parts(path.begin(), path.end());
    match({}, parts, pattern, out);
    if (out.size() == before) {
      fail(pattern, (name == pattern ? "it" : "\"" + name + "\"") + " matches no file",
           "check the path; the files of a directory are directory/*");
    }
    return;
  }
  if (type_of(path, pattern, false) != fs::file_type::directory) {
    add_file(path, pattern, out);
    return;
  }
  const Names names = list(path, pattern, [&](const std::string& file) {
    return file[0] != '.' && file.ends_with(extension);
  });
  for (const std::string& file : names) add_file(path / file, pattern, out);
  if (out.size() == before) {
    const std::string files = extension.empty() ? "" : " *" + std::string(extension);
    fail(pattern, "there are no files" + files + " in the directory " + path.string(),
         "check the path, or give a wildcard for files of other names");
  }
}

}  // namespace

std::string FilePatterns::text() const {
  if (patterns_.empty()) return "no pattern";
  if (patterns_.size() == 1) return patterns_[0];
  return patterns_[0] + " and " + std::to_string(patterns_.size() - 1) + " more";
}

std::vector<fs::path> find_files(const FilePatterns& patterns, std::string_view extension) {
  if (patterns.all().empty()) {
    throw Error("leat: no files: the list of patterns is empty; give at least one");
  }
  struct Found {
    fs::path file;
    std::string meaning;  // ./a and a are one file
    const std::string* pattern;
  };
  std::vector<Found> found;
  for (const std::string& pattern : patterns.all()) {
    if (pattern.empty()) fail(pattern, "it is empty", "give a file, a directory or a wildcard");
    Names names;
    std::error_code error;
    if (fs::exists(pattern, error)) {
      names.push_back(pattern);
    } else {
      names = expand(pattern);
    }
    std::vector<fs::path> files;
    for (const std::string& name : names) find(name, extension, pattern, files);
    for (fs::path& file : files) {
      std::string meaning = file.lexically_normal().string();
      found.push_back({std::move(file), std::move(meaning), &pattern});
    }
  }

  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.meaning < b.meaning; });
  const auto twice =
      std::adjacent_find(found.begin(), found.end(),
                         [](const Found& a, const Found& b) { return a.meaning == b.meaning; });
  if (twice != found.end()) {
    const Found& other = *std::next(twice);
    fail(*twice->pattern,
         other.file.string() + " is named twice" +
             (twice->pattern == other.pattern ? "" : ", also by \"" + *other.pattern + "\""),
         "name each file once");
  }
  std::vector<fs::path> files;
  files.reserve(found.size());
  for (Found& one : found) files.push_back(std::move(one.file));
  // Compares strings, byte by byte. (Paths compare part by part.)
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

void FilesDigest::add(const std::filesystem::path& file, std::uint64_t bytes) {
  const std::string text = file.filename().string() + '/' + std::to_string(bytes) + '/';
  for (const char c : text) sum_ = (sum_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

}  // namespace leat::feeder
