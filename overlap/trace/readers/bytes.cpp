#include "leat/overlap/trace/readers/bytes.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace overlap::trace {
namespace {

constexpr std::size_t kMostToken = std::size_t{16} << 20;

bool is_scalar(unsigned char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.';
}

// A character of one byte that a string has as it is.
bool is_plain(unsigned char c) noexcept { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; }

bool is_hex(unsigned char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return text;
}

}  // namespace

JsonBytes::JsonBytes(const std::filesystem::path& file) : file_(file) {
  errno = 0;
  in_file_.reset(gzopen(file.c_str(), "rb"));
  if (in_file_ == nullptr) {
    throw Unreadable(file.string() + ": cannot be opened: " +
                     std::generic_category().message(errno == 0 ? ENOMEM : errno));
  }
  // Half of what a read takes: zlib then unpacks into in_ itself, and little before damage is lost.
  gzbuffer(in_file_.get(), static_cast<unsigned>(in_.size() / 2));
  out_.reserve(2 * in_.size());
}

// Makes out_ hold the next bytes; it stays empty at the end.
void JsonBytes::refill() {
  out_.clear();
  at_ = 0;
  while (out_.empty() && !is_over_) {
    if (fetch()) {
      before_ = now_;
      mend();
    } else {
      is_over_ = true;
      if (now_.in == In::kScalar) end_scalar();
    }
  }
}

bool JsonBytes::fetch() {
  errno = 0;
  const int got = gzread(in_file_.get(), in_.data(), static_cast<unsigned>(in_.size()));
  int status = Z_OK;
  const char* const why = gzerror(in_file_.get(), &status);
  if (got <= 0 && status != Z_OK) {
    std::string_view reason = why;  // "<file>: incorrect data check"
    reason.remove_prefix(std::min(reason.size(), reason.rfind(": ") + 2));
    throw Unreadable(file_.string() + ", byte " + std::to_string(taken_) + " (unpacked): " +
                     (status == Z_ERRNO       ? std::generic_category().message(errno)
                      : status == Z_BUF_ERROR ? "the file is cut off"
                                              : "damaged behind it: " + std::string(reason)));
  }
  in_at_ = 0;
  in_end_ = static_cast<std::size_t>(std::max(got, 0));
  taken_ += in_end_;
  return in_end_ > 0;
}

std::uint64_t JsonBytes::offset() {
  const std::size_t wanted = at_;
  const std::size_t end = in_end_;
  now_ = before_;
  out_.clear();
  in_at_ = 0;
  for (in_end_ = 0; out_.size() < wanted && in_end_ < end;) {
    ++in_end_;
    mend();
  }
  // A number comes out when the byte behind it is there.
  const std::size_t too_many = out_.size() > wanted ? 1 : 0;
  return taken_ - end + in_at_ - too_many;
}

void JsonBytes::count(std::size_t bytes) {
  now_.token += bytes;
  if (now_.token <= kMostToken) return;
  const std::uint64_t at = taken_ - in_end_ + in_at_ - (now_.token - kMostToken - 1);
  throw Unreadable(file_.string() + ", byte " + std::to_string(at) +
                   (now_.in == In::kBetween ? ": more than 16 MiB without a string or number"
                                            : ": a string or number of more than 16 MiB"));
}

void JsonBytes::mend() {
  while (in_at_ < in_end_) {
    const unsigned char byte = in_[in_at_];
    switch (now_.in) {
      case In::kBetween:
        ++in_at_;
        if (is_scalar(byte)) {
          now_.in = In::kScalar;
          now_.scalar.assign(1, static_cast<char>(byte));
          count(1);
          break;
        }
        if (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') break;
        out_ += static_cast<char>(byte);
        if (byte == '"') {
          now_.in = In::kString;
          now_.token = 0;
        } else {
          count(1);
        }
        break;
      case In::kScalar: {
        std::size_t end = in_at_;
        while (end < in_end_ && is_scalar(in_[end])) ++end;
        const std::size_t begin = std::exchange(in_at_, end);
        count(end - begin);
        now_.scalar.append(reinterpret_cast<const char*>(&in_[begin]), end - begin);
        if (end < in_end_) end_scalar();
        break;
      }
      case In::kString: {
        // Plain characters in one go.
        std::size_t end = in_at_;
        while (now_.more == 0 && now_.escape.empty() && end < in_end_ && is_plain(in_[end])) ++end;
        if (end > in_at_) {
          const std::size_t begin = std::exchange(in_at_, end);
          count(end - begin);
          out_.append(reinterpret_cast<const char*>(&in_[begin]), end - begin);
          break;
        }
        ++in_at_;
        count(1);
        text_byte(byte);
        break;
      }
      case In::kEscape:
        ++in_at_;
        count(1);
        escaped_byte(byte);
        break;
      case In::kUnicode:
        if (!is_hex(byte)) {  // which the parser refuses
          out_ += std::exchange(now_.escape, {});
          now_.in = In::kString;
          break;
        }
        ++in_at_;
        count(1);
        now_.escape += static_cast<char>(byte);
        if (now_.escape.size() % 6 == 0) end_unicode();
        break;
    }
  }
}

void JsonBytes::end_scalar() {
  const bool is_number = now_.scalar[0] == '-' || now_.scalar[0] == '+' || now_.scalar[0] == '.' ||
                         (now_.scalar[0] >= '0' && now_.scalar[0] <= '9');
  now_.in = In::kBetween;
  if (is_number) {
    now_.token = 0;
    out_ += '"';
    out_ += now_.scalar;
    out_ += '"';
    return;
  }
  const std::string word = lower(now_.scalar);
  out_ += word == "nan" || word == "inf" || word == "infinity" ? "null" : now_.scalar;
  out_ += ' ';  // "nul l" is no null
}

// A byte of a string that is not plain: the end, an escape, a part of a character, or what is none.
void JsonBytes::text_byte(unsigned char byte) {
  if (now_.more > 0 && byte >= now_.least && byte <= now_.most) {
    now_.character += static_cast<char>(byte);
    now_.least = 0x80;
    now_.most = 0xBF;
    if (--now_.more == 0) out_ += now_.character;
    return;
  }
  if (now_.more > 0) out_ += '?';
  now_.more = 0;
  if (byte == '\\') {
    now_.in = In::kEscape;
    return;
  }
  if (!now_.escape.empty()) out_ += '?';
  now_.escape.clear();
  if (byte == '"') {
    now_.in = In::kBetween;
    now_.token = 0;
    out_ += '"';
  } else if (byte >= 0xC2 && byte <= 0xF4) {
    // The second byte is limited, so that each character has one form (RFC 3629).
    now_.character.assign(1, static_cast<char>(byte));
    now_.more = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    now_.least = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    now_.most = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  } else {
    out_ += is_plain(byte) ? static_cast<char>(byte) : '?';
  }
}

// The byte behind a backslash.
void JsonBytes::escaped_byte(unsigned char byte) {
  if (byte == 'u') {
    now_.in = In::kUnicode;
    now_.escape += "\\u";
    return;
  }
  if (!now_.escape.empty()) out_ += '?';
  now_.escape.clear();
  now_.in = In::kString;
  if (byte == 'b' || byte == 'f' || byte == 'n' || byte == 'r' || byte == 't') {
    out_ += '?';
  } else {
    out_ += '\\';
    out_ += static_cast<char>(byte);
  }
}

// \u and its four digits are there; before them, perhaps, the first half of a pair.
void JsonBytes::end_unicode() {
  now_.in = In::kString;
  const std::string last = now_.escape.substr(now_.escape.size() - 6);
  const unsigned long code = std::stoul(last.substr(2), nullptr, 16);
  const bool is_first = code >= 0xD800 && code < 0xDC00;
  const bool is_second = code >= 0xDC00 && code < 0xE000;
  const bool has_first = now_.escape.size() > 6;
  if (is_second && has_first) {
    out_ += std::exchange(now_.escape, {});
    return;
  }
  if (has_first) out_ += '?';
  now_.escape = is_first ? last : "";
  if (is_first) return;
  if (is_second || code < ' ' || code == 0x7F) {
    out_ += '?';
  } else {
    out_ += last;
  }
}

}  // namespace overlap::trace
