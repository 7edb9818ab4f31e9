#include "leat/feeder/sources/checks.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

// No memory has more. Two such numbers may be added.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 55;

std::string text(std::span<const Field> fields) {
  std::string all;
  for (const Field& field : fields) {
    all += (all.empty() ? "" : ", ") + field.name + " (" + to_string(field.dtype) + ", " +
           std::to_string(field.bytes()) + " bytes)";
  }
  return all.empty() ? "nothing" : all;
}

}  // namespace

std::string advice_for_unreadable(std::string_view what) {
  return "check that " + std::string(what) + " may be read";
}

std::string printable(std::string_view name) {
  std::string text(name);
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f') letter = '?';
  }
  return text;
}

void cannot_read(const std::filesystem::path& file, const std::string& problem,
                 const std::string& advice) {
  throw Error("leat: cannot read " + printable(file.string()) + ": " + problem + "; " + advice);
}

void lacks_memory(const std::filesystem::path& file, std::uint64_t bytes,
                  const std::string& problem, const std::string& advice) {
  throw OutOfMemory(bytes, "cannot read " + printable(file.string()), problem + "; " + advice);
}

std::string start_of(std::string_view name) {
  constexpr std::size_t kMost = 400;
  return printable(name.substr(0, kMost)) + (name.size() <= kMost ? "" : "...");
}

void no_files(std::string_view pattern, const std::string& problem, const std::string& advice) {
  throw Error("leat: no files from \"" + start_of(pattern) + "\": " + problem + "; " + advice);
}

void refuse_address(std::string_view name, int error) {
  if (error != ENOENT && error != ENOTDIR && error != ENAMETOOLONG) return;
  const auto is_of_scheme = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  };
  const auto colon = std::find_if_not(name.begin(), name.end(), is_of_scheme);
  const auto length = static_cast<std::size_t>(colon - name.begin());
  const std::string_view behind = name.substr(length);
  std::string scheme(name.substr(0, length));
  std::string advice = "download the files, or mount them as a folder, and give their paths";
  if (name.find("::") != std::string_view::npos) {  // a chain of fsspec
    scheme = behind.starts_with("::") ? scheme + "::" : "::";
  } else if (scheme == "pipe" && behind.starts_with(':')) {
    scheme += ':';
    advice = "write what the command prints to a file, and give its path";
  } else if (length > 1 && behind.starts_with(":/")) {  // pathlib makes one / of two
    scheme += behind.starts_with("://") ? "://" : ":/";
    if (scheme.starts_with("file:")) advice = "give the path alone";
  } else {
    return;
  }
  no_files(name, "there is no file of this name, and \"" + scheme + "\" is not supported", advice);
}

std::uint64_t fixed_bytes(const Field& field, const char* of_what) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("leat: field \"" + field.name + "\" of " + of_what + " " + why);
  };
  if (field.variable_length) refuse("has a variable length; fixed ones are possible here");
  std::uint64_t bytes = size_of(field.dtype);
  for (const std::int64_t extent : field.shape) {
    if (extent < 1) refuse("has an extent of " + std::to_string(extent) + "; the least is 1");
    if (bytes > kMostBytes / static_cast<std::uint64_t>(extent)) {
      refuse("is larger than any memory");
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

std::uint64_t fixed_bytes(std::span<const Field> fields, const char* of_what) {
  std::uint64_t total = 0;
  for (const Field& field : fields) {
    total += fixed_bytes(field, of_what);
    if (total > kMostBytes) {
      throw std::invalid_argument("leat: the fields of " + std::string(of_what) + " up to \"" +
                                  field.name + "\" are larger than any memory");
    }
  }
  return total;
}

void check_index(const Dataset& data, std::uint64_t index) {
  if (index < data.size()) return;
  throw Error("leat: " + std::string(data.name()) + " has no sample " + std::to_string(index) +
              "; it has " + std::to_string(data.size()));
}

void check_read(const Dataset& data, std::uint64_t index, const Sample& out) {
  check_index(data, index);
  const std::span<const Field> fields = data.fields();
  bool fits = out.fields().size() == fields.size();
  for (std::size_t f = 0; fits && f < fields.size(); ++f) {
    fits = out.fields()[f].dtype == fields[f].dtype &&
           out.fields()[f].variable_length == fields[f].variable_length &&
           out.fields()[f].row_bytes() == fields[f].row_bytes() &&
           (fields[f].variable_length || out.bytes(f).size() == fields[f].bytes());
  }
  if (fits) return;
  throw std::invalid_argument("leat: a sample of " + std::string(data.name()) + " is " +
                              text(fields) + "; it cannot be read into " + text(out.fields()));
}

}  // namespace leat::feeder
