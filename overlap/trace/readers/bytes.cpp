#include "leat/overlap/trace/readers/bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace overlap::trace {
namespace {

constexpr std::size_t kMostToken = std::size_t{16} << 20;

bool is_scalar(unsigned char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.';
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
  gzbuffer(in_file_.get(), 1 << 18);
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
    throw Unreadable(file_.string() + ", byte " + std::to_string(taken_) + " (unpacked): " +
                     (status == Z_ERRNO       ? std::generic_category().message(errno)
                      : status == Z_BUF_ERROR ? "the file is cut off"
                                              : why));
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
  return taken_ - end + in_at_;
}

void JsonBytes::count(std::size_t bytes) {
  now_.token += bytes;
  if (now_.token <= kMostToken) return;
  throw Unreadable(file_.string() + ", byte " + std::to_string(taken_ - in_end_ + in_at_) +
                   ": a string or number of more than 16 MiB");
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
          now_.token = 1;
          break;
        }
        out_ += static_cast<char>(byte);
        if (byte == '"') {
          now_.in = In::kString;
          now_.token = 0;
        }
        break;
      case In::kScalar:
        if (!is_scalar(byte)) {
          end_scalar();
          break;
        }
        ++in_at_;
        count(1);
        now_.scalar += static_cast<char>(byte);
        break;
      case In::kString: {
        // Plain characters in one go.
        std::size_t end = in_at_;
        while (now_.more == 0 && end < in_end_ && in_[end] >= ' ' && in_[end] < 0x80 &&
               in_[end] != '"' && in_[end] != '\\')
          ++end;
        if (end > in_at_) {
          count(end - in_at_);
          out_.append(reinterpret_cast<const char*>(&in_[in_at_]), end - in_at_);
          in_at_ = end;
          break;
        }
        ++in_at_;
        count(1);
        text_byte(byte);
        break;
      }
      case In::kEscape:
        ++in_at_;
        now_.in = In::kString;
        out_ += static_cast<char>(byte);
        break;
    }
  }
}

void JsonBytes::end_scalar() {
  const bool is_number = now_.scalar[0] == '-' || now_.scalar[0] == '+' || now_.scalar[0] == '.' ||
                         (now_.scalar[0] >= '0' && now_.scalar[0] <= '9');
  const std::string word = is_number ? "" : lower(now_.scalar);
  if (is_number) {
    out_ += '"' + now_.scalar + '"';
  } else {
    out_ += word == "nan" || word == "inf" || word == "infinity" ? "null" : now_.scalar;
  }
  now_.in = In::kBetween;
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
  if (byte == '"' || byte == '\\') {
    now_.in = byte == '"' ? In::kBetween : In::kEscape;
    out_ += static_cast<char>(byte);
  } else if (byte >= 0xC2 && byte <= 0xF4) {
    // The second byte is limited, so that each character has one form (RFC 3629).
    now_.character.assign(1, static_cast<char>(byte));
    now_.more = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    now_.least = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    now_.most = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  } else {
    out_ += byte >= ' ' && byte < 0x80 ? static_cast<char>(byte) : '?';
  }
}

}  // namespace overlap::trace
