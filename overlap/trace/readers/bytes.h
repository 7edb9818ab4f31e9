// The bytes of a JSON file as a strict parser takes them: unpacked, with what real traces get wrong
// put right.
//
// Numbers become strings of their text, so that none is rounded or refused (1e400). Bare nan and
// inf become null. In strings, bytes that are no UTF-8, halves of surrogate pairs (\ud800) and
// control characters, escaped or not, become "?". White space is left out.
#pragma once

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

namespace overlap::trace {

/// A file that cannot be read: which, at which byte (of the unpacked text), why.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Unpacks and mends a file piece by piece.
class JsonBytes {
 public:
  /// Opens a file, compressed by gzip or not. Throws Unreadable.
  explicit JsonBytes(const std::filesystem::path& file);

  /// The next byte; std::char_traits<char>::eof() at the end. Throws Unreadable for a file that is
  /// cut off or damaged, for a string or number of more than 16 MiB, and for as many other
  /// bytes between two of them: a parser keeps all these.
  [[nodiscard]] int peek() {
    if (at_ == out_.size()) refill();
    return at_ == out_.size() ? -1 : static_cast<unsigned char>(out_[at_]);
  }
  void skip() noexcept { ++at_; }
  /// Returns for how many bytes of the unpacked file those stand that were skipped: up to and with
  /// the one that a parser stumbled over. The last call.
  [[nodiscard]] std::uint64_t offset();

  /// For nlohmann::json::sax_parse().
  class Cursor {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;  // NOLINT(readability-identifier-naming): of an iterator
    using reference = char;       // NOLINT(readability-identifier-naming): likewise

    Cursor() = default;
    explicit Cursor(JsonBytes& of) : of_(&of) {}
    char operator*() const { return static_cast<char>(of_->peek()); }
    Cursor& operator++() {
      of_->skip();
      return *this;
    }
    // Equal to the end at the end; compared with it alone.
    bool operator==(const Cursor& /*end*/) const { return of_ == nullptr || of_->peek() == -1; }
    bool operator!=(const Cursor& end) const { return !(*this == end); }

   private:
    JsonBytes* of_ = nullptr;
  };

 private:
  struct Close {
    void operator()(gzFile file) const noexcept { gzclose(file); }
  };

  void refill();
  bool fetch();
  void mend();
  void end_scalar();
  void text_byte(unsigned char byte);
  void escaped_byte(unsigned char byte);
  void end_unicode();
  void count(std::size_t bytes);

  std::filesystem::path file_;
  std::unique_ptr<gzFile_s, Close> in_file_;
  std::array<unsigned char, 1 << 16> in_{};
  std::size_t in_at_ = 0;
  std::size_t in_end_ = 0;
  std::uint64_t taken_ = 0;
  bool is_over_ = false;
  std::string out_;
  std::size_t at_ = 0;

  // Where the mending is.
  enum class In : std::uint8_t { kBetween, kScalar, kString, kEscape, kUnicode };
  struct Place {
    In in = In::kBetween;
    std::string scalar = {};
    std::size_t token = 0;    // bytes of the string or number so far; behind it, of what follows
    std::string escape = {};  // \ud83d, whose other half is to come; \u, whose digits are
    // Of a character of several bytes: those that came, how many are to come, what the next may be.
    std::string character = {};
    unsigned more = 0;
    unsigned char least = 0;
    unsigned char most = 0;
  };
  Place now_;
  Place before_;  // at the beginning of in_
};

}  // namespace overlap::trace
