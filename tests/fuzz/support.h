// What the fuzz targets have in common: a file in memory, numbers from an input, and what an error
// may be. A target's invariants are its own; libFuzzer and the sanitizers see the rest.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "leat/csp/error.h"

namespace leat::fuzz {

using Input = std::span<const std::uint8_t>;

/// Ends the program: a finding.
[[noreturn]] inline void finding(const std::string& why) {
  std::fprintf(stderr, "FINDING: %s\n", why.c_str());
  std::abort();
}

/// A finding unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) finding(what);
}

/// A file in memory, which has a path as every other.
class MemoryFile {
 public:
  explicit MemoryFile(Input bytes) : descriptor_(memfd_create("leat-fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "no file in memory");
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = write(descriptor_, bytes.data() + done, bytes.size() - done);
      require(wrote > 0, "a file in memory cannot be written");
      done += static_cast<std::size_t>(wrote);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::filesystem::path path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }
  void resize(std::size_t bytes) const {
    require(ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0, "a file cannot be resized");
  }

 private:
  int descriptor_;
};

/// Takes numbers from the end of an input, which is data for the rest.
class Numbers {
 public:
  explicit Numbers(Input input) : rest_(input) {}
  [[nodiscard]] Input rest() const { return rest_; }
  /// A number of `bytes` bytes; 0 once the input is used up.
  std::uint64_t take(std::size_t bytes) {
    std::uint64_t value = 0;
    for (; bytes > 0; --bytes) {
      value <<= 8;
      if (rest_.empty()) continue;
      value |= rest_.back();
      rest_ = rest_.first(rest_.size() - 1);
    }
    return value;
  }
  std::uint64_t below(std::uint64_t end) { return take(end > 256 ? 2 : 1) % end; }

 private:
  Input rest_;
};

/// Returns whether `f` returns. It may also throw leat::Error, whose text has to contain `named`,
/// say what to do, and be one short line; or, if `arguments_too`, std::invalid_argument.
template <class F>
bool succeeds(const F& f, std::string_view named = "", bool arguments_too = false) {
  try {
    f();
    return true;
  } catch (const Error& error) {
    const std::string text = error.what();
    require(text.starts_with("leat: "), "no \"leat: \" in: " + text);
    require(text.find(named) != std::string::npos, std::string(named) + " is not in: " + text);
    require(text.find("; ") != std::string::npos, "no advice in: " + text);
    require(text.size() < 5000, "a text of " + std::to_string(text.size()) + " bytes");
    for (const char c : text) require(c >= ' ' || c < '\0', "a control character in: " + text);
  } catch (const std::invalid_argument& error) {
    require(arguments_too, std::string("std::invalid_argument: ") + error.what());
  }
  return false;
}

}  // namespace leat::fuzz

/// What libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
