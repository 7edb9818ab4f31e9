#include "leat/feeder/sources/known_formats.h"

#include <algorithm>
#include <cstring>

namespace leat::feeder {
namespace {

// NOLINTNEXTLINE(google-build-using-namespace): ""sv, whose literals may have 0 bytes
using namespace std::string_view_literals;

constexpr KnownFormat kNpy{"a .npy file", "\x93NUMPY"sv};
constexpr KnownFormat kJpeg{"a JPEG image", {}};
constexpr KnownFormat kArrowStream{"an Arrow stream", {}};
constexpr KnownFormat kSafetensors{"a safetensors file", {}};

// Sources, besides the formats' own documents: github.com/karpathy/llm.c for its numbers, which are
// little-endian; github.com/Lightning-AI/litgpt, packed_dataset.py; github.com/NVIDIA/Megatron-LM,
// indexed_dataset.py, whose .bin files have no header.
constexpr std::array kByMagic{
    kNpy,
    KnownFormat{"a zip or .npz archive", "PK\x03\x04"sv},
    KnownFormat{"a tar archive", "ustar"sv, 257},
    KnownFormat{"a Parquet file", "PAR1"sv},
    KnownFormat{"an Arrow file", "ARROW1"sv},
    KnownFormat{"an HDF5 file", "\x89HDF\r\n\x1a\n"sv},
    KnownFormat{"a packed dataset of LitGPT", "LITPKDS"sv},
    KnownFormat{"an index of Megatron's (.idx), beside which is a .bin", "MMIDIDX\0\0"sv},
    KnownFormat{"an index of fairseq's or Megatron's (.idx)", "TNTIDX\0\0"sv},
    KnownFormat{"compressed with gzip", "\x1f\x8b\x08\x00"sv},
    KnownFormat{"compressed with gzip", "\x1f\x8b\x08\x08"sv},
    KnownFormat{"compressed with bgzip", "\x1f\x8b\x08\x04"sv},
    KnownFormat{"compressed with zstd", "\x28\xb5\x2f\xfd"sv},
    KnownFormat{"compressed with zstd", "\x50\x2a\x4d\x18"sv},
    KnownFormat{"compressed with xz", "\xfd\x37zXZ"sv},
    KnownFormat{"compressed with bzip2", "1AY&SY"sv, 4},
    KnownFormat{"compressed with lz4", "\x04\x22\x4d\x18"sv},
    KnownFormat{"a PNG image", "\x89PNG\r\n\x1a\n"sv},
    KnownFormat{"a model of llm.c", "\xc6\xd7\x34\x01"sv},                // 20240326
    KnownFormat{"a state of llm.c for debugging", "\xc7\xd7\x34\x01"sv},  // 20240327
    KnownFormat{"a tokenizer of llm.c", "\xc8\xd7\x34\x01"sv},            // 20240328
    KnownFormat{"evaluation data of llm.c", "\x8a\xd8\x34\x01"sv},        // 20240522
    KnownFormat{"a training state of llm.c", "\x8f\xd8\x34\x01"sv},       // 20240527
    KnownFormat{"a model of llm.c", "\xa3\xd9\x34\x01"sv},                // 20240803
};

bool has(std::span<const std::byte> start, std::size_t at, std::string_view bytes) noexcept {
  return start.size() >= at + bytes.size() &&
         std::memcmp(start.data() + at, bytes.data(), bytes.size()) == 0;
}

// The start of an image, and that of any segment.
bool is_jpeg(std::span<const std::byte> start) noexcept {
  return has(start, 0, "\xff\xd8\xff") && start.size() > 3 && start[3] >= std::byte{0xc0} &&
         start[3] != std::byte{0xff};
}

// A length, below 2^24, and the beginning of a schema.
bool is_arrow_stream(std::span<const std::byte> start) noexcept {
  return has(start, 0, "\xff\xff\xff\xff") &&
         has(start, 7, "\x00\x10\x00\x00\x00\x00\x00\x0a\x00"sv);
}

// The length of the header, which is JSON.
bool is_safetensors(std::span<const std::byte> start, std::uint64_t size) noexcept {
  constexpr std::size_t kText = 8;
  if (start.size() < 2 * kText || !has(start, kText, "{\"")) return false;
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  return length <= size - kText &&
         std::all_of(start.begin() + kText, start.begin() + 2 * kText,
                     [](std::byte b) { return b >= std::byte{' '} && b <= std::byte{'~'}; });
}

}  // namespace

const KnownFormat* known_format(std::span<const std::byte> start, std::uint64_t size) noexcept {
  const auto* const found =
      std::find_if(kByMagic.begin(), kByMagic.end(),
                   [&](const KnownFormat& one) { return has(start, one.at, one.magic); });
  if (found != kByMagic.end()) return found;
  if (is_jpeg(start)) return &kJpeg;
  if (is_arrow_stream(start)) return &kArrowStream;
  return is_safetensors(start, size) ? &kSafetensors : nullptr;
}

const KnownFormat* known_format(const MappedFile& file) {
  std::array<std::byte, 512> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): it is read
  const auto start = std::span(buffer).first(std::min<std::size_t>(buffer.size(), file.size()));
  file.read(0, start);
  return known_format(start, file.size());
}

bool is_npy(const KnownFormat* format) noexcept {
  return format != nullptr && format->magic == kNpy.magic;
}

}  // namespace leat::feeder
