// Always true:
//
//  - The header is not trusted. A payload is allocated as it arrives. Data beyond the announced
//    size is decompressed in constant memory, and only until it is clear whether the file is
//    corrupt.
//  - A read is short only at the end of the data. Input then knows whether the data is cut off.
//  - Offsets in messages are offsets in the file on disk, compressed or not.
#include "leat/feeder/sources/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/open_files.h"

namespace leat::feeder {
namespace {

using Bytes = std::span<std::uint8_t>;

// The first allocation for a payload; each further one doubles it. MNIST's largest payload fits.
constexpr std::size_t kFirstChunk = std::size_t{64} << 20;

// How much data beyond the announced size is decompressed, at most, to reach the checksum: a
// second's work, and enough for every dataset of this kind.
constexpr std::size_t kMostBeyond = std::size_t{256} << 20;

// Deflate's highest ratio: 258 bytes from 2 bits (zlib's technical notes state 1032:1).
constexpr std::uint64_t kMaxCompression = 1032;

std::string hex(std::uint32_t number) {
  std::array<char, 11> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", number);
  return text.data();
}

// The bytes of a file, decompressed if it is gzip. gzopen would ignore bytes that follow the
// compressed data, and does not report the place of an error.
class Input {
 public:
  explicit Input(const std::filesystem::path& path) : path_(path), file_(path) {
    std::array<std::uint8_t, 2> start{};
    is_gzip_ = read_file(start) == 2 && start[0] == 0x1f && start[1] == 0x8b;
    offset_ = 0;
    // 15: the largest window; 16: a gzip header and trailer only.
    if (is_gzip_) inflating(inflateInit2(&stream_, 15 + 16));
  }
  ~Input() {
    if (is_gzip_) inflateEnd(&stream_);
  }
  Input(const Input&) = delete;  // zlib's state points back to stream_
  Input& operator=(const Input&) = delete;

  // Fills `out` and returns the number of bytes read: less than out.size() only at the end.
  std::size_t read(Bytes out) { return is_gzip_ ? read_gzip(out) : read_file(out); }

  // Reads until the end of the data, at most about `most` bytes. Throws if they are corrupt.
  void skip(std::size_t most) {
    std::vector<std::uint8_t> thrown_away(1 << 16);
    for (std::size_t done = 0; done < most; done += thrown_away.size()) {
      if (read(thrown_away) < thrown_away.size()) return;
    }
  }

  // After a short read: returns whether the gzip stream is incomplete.
  [[nodiscard]] bool is_cut_off() const noexcept { return is_cut_off_; }
  [[nodiscard]] bool is_gzip() const noexcept { return is_gzip_; }

  // The most bytes that a file of this size can hold.
  [[nodiscard]] std::uint64_t capacity() const noexcept {
    if (!is_gzip_) return file_.size();
    return file_.size() > std::numeric_limits<std::uint64_t>::max() / kMaxCompression
               ? std::numeric_limits<std::uint64_t>::max()
               : file_.size() * kMaxCompression;
  }

  [[nodiscard]] std::string capacity_text() const {
    if (!is_gzip_) return std::to_string(file_.size());
    return "at most " + std::to_string(capacity()) + " in a gzip file of " +
           std::to_string(file_.size());
  }

  // Returns " at byte 123 of the file": the next byte to read.
  [[nodiscard]] std::string where() const {
    return " at byte " + std::to_string(offset_ - stream_.avail_in) + " of the file";
  }

 private:
  std::size_t read_file(Bytes out) {
    const OpenFile::Read read = file_.read(offset_, std::as_writable_bytes(out));
    offset_ += read.bytes;
    if (read.error != 0) {
      cannot_read(path_, std::strerror(read.error) + where(), advice_for_unreadable());
    }
    return read.bytes;
  }

  std::size_t read_gzip(Bytes out) {
    std::size_t done = 0;
    while (done < out.size() && !at_end_) {
      if (stream_.avail_in == 0) {
        stream_.next_in = buffer_.data();
        stream_.avail_in = static_cast<uInt>(read_file(buffer_));
        if (stream_.avail_in == 0) {
          at_end_ = between_members_;
          is_cut_off_ = !between_members_;
          break;
        }
      }
      if (between_members_) {  // a gzip file is one compressed member or several
        if (*stream_.next_in != 0x1f) {
          cannot_read(path_, "something that is not gzip follows the compressed data" + where(),
                      kFetchAgain);
        }
        inflating(inflateReset(&stream_));
        between_members_ = false;
      }
      const std::size_t room =
          std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max());
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(room);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        between_members_ = true;  // the member ended, and its checksum was right
      } else {
        inflating(result);
      }
    }
    return done;
  }

  void inflating(int result) const {
    if (result == Z_OK) return;
    const std::string why = stream_.msg != nullptr ? stream_.msg : zError(result);
    cannot_read(path_, "corrupt gzip data (zlib: " + why + ")" + where(), kFetchAgain);
  }

  const std::filesystem::path& path_;
  OpenFile file_;
  std::uint64_t offset_ = 0;  // bytes read from file_
  bool is_gzip_ = false;
  bool between_members_ = false;
  bool at_end_ = false;  // of gzip: the last member is complete and nothing follows
  bool is_cut_off_ = false;
  z_stream stream_{};
  std::vector<std::uint8_t> buffer_ =
      std::vector<std::uint8_t>(1 << 16);  // too large for a fiber's stack
};

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  std::uint32_t number = 0;
  for (const std::uint8_t byte : bytes) number = number << 8 | byte;
  return number;
}

std::string to_string(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t extent : shape) {
    text += (text.empty() ? "" : " x ") + std::to_string(extent);
  }
  return text;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, unsigned dimensions) {
  if (dimensions < 1 || dimensions > 255) {
    throw std::invalid_argument("leat: IDX files have 1 to 255 dimensions, not " +
                                std::to_string(dimensions));
  }
  Input input(file);

  std::vector<std::uint8_t> header(4 + 4 * std::size_t{dimensions});
  const std::size_t header_found = input.read(header);
  const std::uint32_t expected_magic = 0x00000800 | dimensions;
  const std::uint32_t magic = big_endian(Bytes(header).first(4));
  if (header_found >= 4 && magic != expected_magic) {
    cannot_read(file,
                "wrong magic number: found " + hex(magic) + ", expected " + hex(expected_magic) +
                    " (IDX, unsigned bytes, dimensions: " + std::to_string(dimensions) + ")",
                "check that it is the right file, plain or compressed with gzip");
  }
  if (header_found < header.size()) {
    cannot_read(file,
                "truncated: expected a header of " + std::to_string(header.size()) +
                    " bytes, found " + std::to_string(header_found),
                kFetchAgain);
  }

  IdxArray array;
  for (std::size_t at = 4; at < header.size(); at += 4) {
    array.shape.push_back(big_endian(Bytes(header).subspan(at, 4)));
  }
  std::size_t payload = 1;
  for (const std::size_t extent : array.shape) {
    if (extent != 0 &&
        payload > (std::numeric_limits<std::size_t>::max() - header.size()) / extent) {
      cannot_read(
          file,
          "its header (byte 4) announces more than fits into memory: " + to_string(array.shape),
          kFetchAgain);
    }
    payload *= extent;
  }

  const auto truncated = [&](const std::string& found) {
    cannot_read(file,
                "truncated: expected " + std::to_string(header.size() + payload) +
                    " bytes (a header of " + std::to_string(header.size()) + ", then " +
                    to_string(array.shape) + "), found " + found,
                kFetchAgain);
  };
  if (header.size() + payload > input.capacity()) truncated(input.capacity_text());
  while (array.values.size() < payload) {
    const std::size_t have = array.values.size();
    try {
      array.values.resize(have + std::min(payload - have, std::max(have, kFirstChunk)));
    } catch (const std::exception&) {  // std::bad_alloc, or std::length_error from the vector
      lacks_memory(
          file, payload,
          "there is no memory for its " + std::to_string(payload) + " bytes (" +
              to_string(array.shape) + ")",
          "divide it into several files, or convert it to fixed records, which are mapped");
    }
    const std::size_t wanted = array.values.size() - have;
    const std::size_t found = input.read(Bytes(array.values).subspan(have));
    if (found < wanted) truncated(std::to_string(header.size() + have + found));
  }

  // Reading one more byte shows whether this is the end, and makes zlib verify the checksum.
  std::uint8_t beyond = 0;
  const bool is_longer = input.read({&beyond, 1}) != 0;
  // If the data is longer, either the header is wrong or the file is corrupt. With gzip, the
  // checksum at the end decides.
  if (is_longer && input.is_gzip()) input.skip(kMostBeyond);
  if (is_longer && !input.is_cut_off()) {
    cannot_read(file,
                "more bytes than the " + std::to_string(header.size() + payload) +
                    " that its header announces (" + to_string(array.shape) + ")",
                kFetchAgain);
  }
  if (input.is_cut_off()) {
    cannot_read(file, "truncated: the gzip data ends before its checksum," + input.where(),
                kFetchAgain);
  }
  return array;
}

}  // namespace leat::feeder
