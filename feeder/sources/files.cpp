// Does not use glob(3): it needs a large stack, ignores broken links, and does not report which
// directory it could not read.
#include "leat/feeder/sources/files.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/braces.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Advice for whoever has brackets or braces in a name, if the pattern has some with a meaning.
std::string how_to_escape(std::string_view pattern) {
  std::string advice;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      ++at;
    } else if (pattern[at] == '[' || pattern[at] == '{') {
      const std::string mark(1, pattern[at]);
      if (advice.find(mark) == std::string::npos) {
        advice.append("; a ").append(mark).append(" in a name is written \\").append(mark);
      }
    }
  }
  return advice;
}

// Throws because `path` cannot be read.
[[noreturn]] void fail_to_read(const std::string& pattern, const fs::path& path,
                               const std::error_code& error) {
  refuse_address(pattern, error.value());
  refuse_address(path.native(), error.value());  // of "{s3://a,b}/c"
  no_files(pattern, start_of(path.string()) + ": " + error.message(),
           advice_for_unreadable("it is there and") + how_to_escape(pattern));
}

// --- Directories and wildcards.

bool is_wild(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '*' || text[at] == '?' || text[at] == '[') {
      return true;
    }
  }
  return false;
}

// Returns the name that a pattern without wildcards stands for: without the backslashes that take
// the meaning of a character.
std::string without_escapes(std::string_view text) {
  std::string name;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    name += text[at];
  }
  return name;
}

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
    no_files(pattern, path.string() + " is neither a file nor a directory",
             "remove it, or name the files");
  }
}

void match(const fs::path& before, std::span<const fs::path> parts, const std::string& pattern,
           std::vector<fs::path>& out) {
  std::size_t plain = 0;
  fs::path directory = before;
  while (plain < parts.size() && !is_wild(parts[plain].native())) {
    directory /= without_escapes(parts[plain++].native());
  }
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

// Appends the file `path`, or the files of that directory.
void add_path(const fs::path& path, std::string_view extension, const std::string& pattern,
              std::vector<fs::path>& out) {
  if (type_of(path, pattern, false) != fs::file_type::directory) {
    add_file(path, pattern, out);
    return;
  }
  const std::size_t before = out.size();
  const Names names = list(path, pattern, [&](const std::string& file) {
    return file[0] != '.' && file.ends_with(extension);
  });
  for (const std::string& file : names) add_file(path / file, pattern, out);
  if (out.size() == before) {
    const std::string files = extension.empty() ? "" : " *" + std::string(extension);
    no_files(pattern, "there are no files" + files + " in the directory " + path.string(),
             "check the path, or give a wildcard for files of other names");
  }
}

// Appends the files that one name stands for. Its braces are expanded. As in bash, a name with
// wildcards that matches nothing is itself.
void find(const std::string& name, std::string_view extension, const std::string& pattern,
          std::vector<fs::path>& out) {
  const fs::path path = without_escapes(name);
  if (is_wild(name)) {
    const std::size_t before = out.size();
    const fs::path wild(name);
    const std::vector<fs::path> parts(wild.begin(), wild.end());
    match({}, parts, pattern, out);
    if (out.size() != before) return;
    if (type_of(path, pattern, true) == fs::file_type::not_found) {
      refuse_address(pattern, ENOENT);
      refuse_address(name, ENOENT);
      no_files(pattern, (name == pattern ? "it" : "\"" + name + "\"") + " matches no file",
               "check the path; the files of a directory are directory/*" + how_to_escape(pattern));
    }
  }
  add_path(path, extension, pattern, out);
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
    if (pattern.empty()) no_files(pattern, "it is empty", "give a file, a directory or a wildcard");
    std::vector<fs::path> files;
    std::error_code error;
    if (fs::exists(pattern, error)) {
      add_path(pattern, extension, pattern, files);
    } else {
      for (const std::string& name : expand_braces(pattern)) {
        if (!name.empty()) find(name, extension, pattern, files);  // bash drops the word, too
      }
    }
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
    no_files(*twice->pattern,
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
  add_name(file.filename().native(), bytes);
}

void FilesDigest::add_name(std::string_view name, std::uint64_t number) {
  const std::string text = std::string(name) + '/' + std::to_string(number) + '/';
  for (const char c : text) sum_ = (sum_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

}  // namespace leat::feeder
