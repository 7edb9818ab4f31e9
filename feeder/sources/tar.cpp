// Always true: the archive is not trusted. Offsets are checked against the archive's size before
// they are used, and allocations are bounded by kLongestText.
#include "leat/feeder/sources/tar.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/known_formats.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kSizeAt = 124;  // offset in a header
// The bytes read at a time. One read finds the headers of several small members.
constexpr std::uint64_t kWindowBytes = 8192;
// The bytes read at a time where only zeros are left.
constexpr std::uint64_t kZerosAtOnce = std::uint64_t{1} << 20;
// The most zeros that end an archive: two blocks, padded to a record of 20 blocks, of which GNU tar
// and Python's tarfile write a whole number.
constexpr std::uint64_t kMostZeros = (20 + 1) * kTarBlock;
// The most bytes of records and names. Paths have 4096 bytes at most.
constexpr std::uint64_t kLongestText = std::uint64_t{1} << 20;

std::string at_byte(std::uint64_t offset) { return " (byte " + std::to_string(offset) + ")"; }

std::uint64_t padded(std::uint64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

// Compares each byte with the next, with memcmp(), which is much faster than a loop.
bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Returns the text up to the first 0 byte.
std::string_view field(std::span<const std::byte> block, std::size_t begin, std::size_t length) {
  const char* const first = reinterpret_cast<const char*>(block.data()) + begin;
  return {first, strnlen(first, length)};
}

// Parses octal digits among spaces, or a binary number. Returns false for anything else.
bool parse_number(std::span<const std::byte> bytes, std::uint64_t& number) {
  number = 0;
  const auto first = std::to_integer<std::uint8_t>(bytes.front());
  if ((first & 0x80) != 0) {
    number = first & 0x7f;
    for (const std::byte byte : bytes.subspan(1)) {
      if (number >> 55 != 0) return false;  // no file is so large; also negative numbers
      number = number << 8 | std::to_integer<std::uint8_t>(byte);
    }
    return true;
  }
  std::string_view digits = field(bytes, 0, bytes.size());
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  if (digits.empty()) return true;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 8);
  return error == std::errc() && end == digits.data() + digits.size();
}

bool checksum_is_right(std::span<const std::byte> block) {
  constexpr std::size_t kBegin = 148;
  constexpr std::size_t kEnd = 156;
  std::uint64_t said = 0;
  if (!parse_number(block.subspan(kBegin, kEnd - kBegin), said)) return false;
  std::int64_t sum = 0;
  std::int64_t sum_signed = 0;  // some programs summed signed bytes
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const auto byte =
        i >= kBegin && i < kEnd ? std::uint8_t{' '} : std::to_integer<std::uint8_t>(block[i]);
    sum += byte;
    sum_signed += static_cast<std::int8_t>(byte);
  }
  return static_cast<std::int64_t>(said) == sum || static_cast<std::int64_t>(said) == sum_signed;
}

}  // namespace

struct TarReader::Header {
  explicit Header(std::span<const std::byte> block)
      : type(static_cast<char>(block[156])),
        name(field(block, 0, 100)),
        link(field(block, 157, 100)) {
    constexpr std::string_view kPosix("ustar\0", 6);
    const bool is_posix = std::memcmp(block.data() + 257, kPosix.data(), kPosix.size()) == 0;
    const std::string_view prefix = is_posix ? field(block, 345, 155) : std::string_view();
    if (!prefix.empty()) name = std::string(prefix) + "/" + name;
    size_is_right = parse_number(block.subspan(kSizeAt, 12), size);
  }

  // Whether the member describes the next member. ('g' describes all that follow.)
  [[nodiscard]] bool describes() const {
    return std::string_view("xXgLK").find(type) != std::string_view::npos;
  }
  // Devices, directories and symbolic links have no data, whatever size is in the header.
  [[nodiscard]] bool may_have_data() const { return type <= '1' || type > '6'; }
  [[nodiscard]] TarKind kind() const {
    switch (type) {
      case '\0':
      case '0':
      case '7': return TarKind::kFile;
      case '1': return TarKind::kHardLink;
      case '2': return TarKind::kSymbolicLink;
      case '3':
      case '4':
      case '6': return TarKind::kDevice;
      case '5':
      case 'D':  // GNU: a folder, and the names of what is in it
      case 'V':  // GNU: the archive's label
        return TarKind::kFolder;
      default: return TarKind::kUnknown;
    }
  }

  char type;
  std::string name;
  std::string link;
  std::uint64_t size = 0;
  bool size_is_right = false;
};

std::uint32_t tar_digest(std::span<const std::byte> headers) noexcept {
  std::uint64_t digest = headers.size();
  for (std::size_t at = 0; at + 8 <= headers.size(); at += 8) {  // blocks are multiples of 8
    std::uint64_t word = 0;
    std::memcpy(&word, headers.data() + at, sizeof word);
    digest = mix(digest + word);
  }
  return static_cast<std::uint32_t>(digest);
}

TarReader::TarReader(std::filesystem::path file, bool accept_zeros)
    : file_(std::move(file)), open_(file_), accept_zeros_(accept_zeros), size_(open_.size()) {}

void TarReader::fail(const std::string& problem, const std::string& advice) const {
  cannot_read(file_, problem, advice);
}

void TarReader::seek(std::uint64_t begin) { next_ = begin; }

// Returns 512 bytes, valid until the next call; fewer at the end of the archive.
std::span<const std::byte> TarReader::block(std::uint64_t offset) {
  const std::uint64_t wanted = std::min(kTarBlock, size_ - std::min(offset, size_));
  if (offset < window_begin_ || offset + wanted > window_begin_ + window_.size()) {
    read_window(offset, kWindowBytes);
  }
  return std::span(window_).subspan(offset - window_begin_, wanted);
}

// Reads `most` bytes at `offset` into the window; fewer at the end of the archive.
void TarReader::read_window(std::uint64_t offset, std::uint64_t most) {
  window_.resize(std::min(most, size_ - std::min(offset, size_)));
  window_begin_ = offset;
  const OpenFile::Read read = open_.read(offset, window_);
  const std::string where = at_byte(offset + read.bytes);
  if (read.error != 0) fail(std::strerror(read.error) + where, advice_for_unreadable());
  if (read.bytes < window_.size()) {
    fail("it became shorter while it was read" + where, advice_for_unreadable());
  }
}

// Returns the data of a member that describes the next one.
std::string TarReader::text(const Header& header, std::uint64_t data) {
  if (header.size > size_ - std::min(data, size_)) {
    fail("truncated: it ends within a header that begins before byte " + std::to_string(data),
         kFetchAgain);
  }
  std::string text;
  for (std::uint64_t at = 0; at < header.size; at += kTarBlock) {
    const std::span<const std::byte> bytes = block(data + at);
    text.append(reinterpret_cast<const char*>(bytes.data()),
                std::min<std::size_t>(bytes.size(), header.size - at));
  }
  return text;
}

// Reads one or more records "30 path=a/long/name.jpg\n". 30 is the length of the whole record.
void TarReader::read_records(const std::string& records, std::uint64_t offset, TarMember& member,
                             std::optional<std::uint64_t>& size) const {
  std::string_view rest = records;
  const auto damaged = [&] { fail("a damaged pax record" + at_byte(offset), kFetchAgain); };
  while (!rest.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 2 || *end != ' ' ||
        rest[length - 1] != '\n') {
      damaged();
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) damaged();
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") {
      member.name = value;
    } else if (key == "linkpath") {
      member.link = value;
    } else if (key == "size") {
      std::uint64_t number = 0;
      const auto [last, bad] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (bad != std::errc() || last != value.data() + value.size()) damaged();
      size = number;
    } else if (key.starts_with("GNU.sparse.")) {
      fail("a sparse file" + at_byte(offset), "make the archive without tar's --sparse");
    }
    rest.remove_prefix(length);
  }
}

// Called for the first block of 0 bytes, at `offset`. Throws if anything but 0 bytes follows, or
// more of them than end an archive.
void TarReader::check_end(std::uint64_t offset) {
  for (std::uint64_t at = offset, end = std::min(size_, offset + kMostZeros); at < size_;) {
    read_window(at, end - at);
    if (!is_zero(window_)) {
      const auto first = std::find_if(window_.begin(), window_.end(),
                                      [](std::byte b) { return b != std::byte{0}; });
      const auto zeros = static_cast<std::uint64_t>(first - window_.begin());
      fail("something follows the end-of-archive mark" + at_byte(at + zeros - zeros % kTarBlock),
           "if archives were put one behind the other, join them with tar's --concatenate");
    }
    if (at == offset && end < size_ && !accept_zeros_) {
      fail("from byte " + std::to_string(offset) + " on, more than " + std::to_string(kMostZeros) +
               " bytes are 0, which is more than ends an archive: has the rest not been written?",
           std::string(kFetchAgain) + "; if it is whole, " + kAcceptShort);
    }
    at = end;
    end = std::min(size_, at + kZerosAtOnce);
  }
}

// Returns the header at `offset`; empty: the end of the archive. `is_inside`: the header belongs to
// a member that has begun, so the archive may not end here.
std::optional<TarReader::Header> TarReader::header(std::uint64_t offset, bool is_inside) {
  if (size_ == 0) fail("it is empty", kFetchAgain);
  if (offset >= size_) {
    fail("truncated: it ends at byte " + std::to_string(size_) +
             " without the mark of its end, two blocks of 0 bytes",
         "fetch the file again; if it is known to be whole, add them: truncate -s +1024");
  }
  const std::span<const std::byte> bytes = block(offset);
  const bool is_whole = bytes.size() == kTarBlock;
  if (is_zero(bytes) && (is_whole || offset != 0)) {
    if (is_inside) fail("it ends where a member was described" + at_byte(offset), kFetchAgain);
    check_end(offset);
    return std::nullopt;
  }
  if (!is_whole && offset != 0) {
    fail("truncated: it ends within a header" + at_byte(offset), kFetchAgain);
  }
  if (!is_whole || !checksum_is_right(bytes)) {
    if (offset == 0) {
      // The mark of a tar archive, which is damaged, is behind these bytes.
      const auto start = bytes.first(std::min<std::size_t>(bytes.size(), 256));
      if (const KnownFormat* const known = known_format(start, size_); known != nullptr) {
        fail("it is " + std::string(known->name),
             "decompress it, or name a WebDataset's shards: samples are read in any order, for "
             "which tar has to be plain");
      }
      fail("it is no tar archive: no header (byte 0)", "name a WebDataset's shards, uncompressed");
    }
    fail("damaged: no header where the next member should begin" + at_byte(offset), kFetchAgain);
  }
  Header found(bytes);
  if (!found.size_is_right) fail("a damaged size" + at_byte(offset + kSizeAt), kFetchAgain);
  if (found.type == 'S') {
    fail("a sparse file" + at_byte(offset), "make the archive without tar's --sparse");
  }
  if (found.type == 'M') {
    fail("a file that began in another archive" + at_byte(offset),
         "make the archive without tar's --multi-volume");
  }
  return found;
}

// Returns whether a member may begin at `offset`, or, if `is_end` is accepted, the archive end.
bool TarReader::may_begin(std::uint64_t offset, bool is_end) {
  const std::span<const std::byte> bytes = block(offset);
  return bytes.size() == kTarBlock && (is_zero(bytes) ? is_end : checksum_is_right(bytes));
}

bool TarReader::next(TarMember& member) {
  member = {};
  member.begin = next_;
  std::vector<std::byte> headers;  // all headers of the member, as in the archive
  const auto keep = [&headers](std::span<const std::byte> bytes) {
    headers.insert(headers.end(), bytes.begin(), bytes.end());
  };
  std::optional<std::uint64_t> described_size;
  std::optional<Header> found;
  while ((found = header(next_, !headers.empty())) && found->describes()) {
    keep(block(next_));
    const std::uint64_t data = next_ + kTarBlock;
    if (found->size > kLongestText || headers.size() > kLongestText) {
      fail("more than a megabyte of headers before a member" + at_byte(next_), kFetchAgain);
    }
    const std::string described = text(*found, data);
    if (found->type == 'L') member.name = described.c_str();  // the name ends with a 0 byte
    if (found->type == 'K') member.link = described.c_str();
    if (found->type == 'x' || found->type == 'X') {
      read_records(described, data, member, described_size);
    }
    for (std::uint64_t at = 0; at < found->size; at += kTarBlock) keep(block(data + at));
    next_ = data + padded(found->size);
  }
  if (!found) return false;

  keep(block(next_));
  member.kind = found->kind();
  if (member.name.empty()) member.name = found->name;
  if (member.link.empty()) member.link = found->link;
  member.data = next_ + kTarBlock;
  member.size = found->may_have_data() ? described_size.value_or(found->size) : 0;
  if (member.kind == TarKind::kHardLink && member.size > 0) {
    const std::uint64_t behind = member.data + padded(std::min(member.size, size_));
    const bool has_data =
        !may_begin(member.data, false) && may_begin(behind, !may_begin(member.data, true));
    if (!has_data) member.size = 0;
    if (has_data) member.kind = TarKind::kFile;
  }
  if (member.size > size_ - member.data) {
    fail("truncated: the data of " + printable(member.name) + " begins at byte " +
             std::to_string(member.data) + " and has " + std::to_string(member.size) +
             ", but the file ends at " + std::to_string(size_),
         kFetchAgain);
  }
  next_ = member.data + padded(member.size);
  if (member.kind == TarKind::kFile && member.name.ends_with('/')) member.kind = TarKind::kFolder;
  member.digest = tar_digest(headers);
  return true;
}

}  // namespace leat::feeder
