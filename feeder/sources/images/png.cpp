// Always true:
//
//  - libpng reports an error by a longjmp to guarded(), over frames of C and of one lambda, which
//    own nothing. Exceptions are thrown after that, never through libpng.
//  - libpng has all bytes from the beginning. If it wants more, the image is cut off.
#include "leat/feeder/sources/images/png.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/images/formats.h"
#include "leat/feeder/sources/images/image_error.h"

namespace leat::feeder {
namespace {

constexpr const char* kPngImage = "a PNG image";
constexpr std::size_t kPngSignature = 8;
constexpr std::size_t kPngHeaderEnd = kPngSignature + 25;  // length, name, 13 bytes, checksum

// The most bytes of a chunk that is not needed, and of what libpng allocates for one chunk.
constexpr png_alloc_size_t kMostPngChunk = 8 << 20;

// The bytes of compressed data that libpng asks for at a time; by default 8 KiB.
constexpr std::size_t kReadAtOnce = std::size_t{32} << 10;

std::uint32_t big_endian_at(const std::byte* at) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | std::to_integer<std::uint32_t>(at[i]);
  return number;
}

}  // namespace

const bool kReadsPng = true;

struct PngDecoder::State {
  explicit State(std::uint64_t most) : max_pixels(most) {}
  ~State() { close(); }
  State(const State&) = delete;  // libpng's state points into it
  State& operator=(const State&) = delete;

  void close() { png_destroy_read_struct(&png, &info, nullptr); }

  // Calls libpng. `calls` must own nothing: an error leaves it by a longjmp.
  template <class F>
  void guarded(const F& calls) {
    if (returns(calls)) return;
    throw ImageError(kPngImage,
                     message.data() + std::string(", near byte ") + std::to_string(at) + " of " +
                         std::to_string(bytes.size()),
                     kFetchAgain);
  }
  template <class F>
  [[gnu::noinline]] bool returns(const F& calls) {
    if (setjmp(jump) != 0) return false;  // NOLINT(cert-err52-cpp): libpng's only way out
    calls();
    return true;
  }

  [[noreturn]] void fail(const char* problem) {
    std::snprintf(message.data(), message.size(), "%s", problem);
    std::longjmp(jump, 1);  // NOLINT(cert-err52-cpp)
  }
  static void failed(png_structp reader, png_const_charp problem) {
    static_cast<State*>(png_get_error_ptr(reader))->fail(problem);
  }
  static void take(png_structp reader, png_bytep to, std::size_t count) {
    State& state = *static_cast<State*>(png_get_io_ptr(reader));
    if (count > state.bytes.size() - state.at) state.fail("it is cut off");
    std::memcpy(to, state.bytes.data() + state.at, count);
    state.at += count;
  }

  void start() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, failed, [](auto, auto) {});
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) fail("libpng does not start, for lack of memory or as it is another one");
    png_set_user_limits(png, header.width, header.height);
    png_set_chunk_malloc_max(png, kMostPngChunk);
    png_set_compression_buffer_size(png, kReadAtOnce);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Passes over all chunks that change no pixel, and over transparent colors, which are dropped.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER,
                                reinterpret_cast<png_const_bytep>("tRNS"), 1);
    png_set_read_fn(png, this, take);
    png_read_info(png, info);

    const int color = png_get_color_type(png, info);
    const int depth = png_get_bit_depth(png, info);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (depth == 16) png_set_strip_16(png);
    if ((color & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png);
    if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != std::size_t{3} * header.width) fail("it is of an odd kind");
  }

  std::uint64_t max_pixels;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump{};
  std::array<char, 256> message{};
  std::span<const std::byte> bytes;
  std::size_t at = 0;  // of the next byte
  PngHeader header;
  int passes = 1;
  std::uint32_t rows = 0;  // still to be read
};

PngDecoder::PngDecoder(std::uint64_t max_pixels) : state_(std::make_unique<State>(max_pixels)) {}
PngDecoder::~PngDecoder() = default;

PngHeader PngDecoder::open(std::span<const std::byte> bytes) {
  State& s = *state_;
  s.close();
  s.bytes = bytes;
  s.at = 0;
  s.rows = 0;
  if (bytes.size() < kPngHeaderEnd ||
      std::memcmp(bytes.data() + kPngSignature + 4, "IHDR", 4) != 0) {
    throw ImageError(kPngImage, "its header is damaged or cut off", kFetchAgain);
  }
  s.header.width = big_endian_at(bytes.data() + kPngSignature + 8);
  s.header.height = big_endian_at(bytes.data() + kPngSignature + 12);
  check_pixels(kPngImage, s.header.width, s.header.height, s.max_pixels);
  s.guarded([&] { s.start(); });
  s.header.interlaced = s.passes > 1;
  s.rows = s.header.height;
  return s.header;
}

void PngDecoder::skip(std::uint32_t rows) {
  State& s = *state_;
  if (rows > s.rows || s.header.interlaced) {
    throw std::invalid_argument("leat: " + std::to_string(rows) +
                                " rows of a PNG image are not left, or not in order");
  }
  s.guarded([&] {
    for (std::uint32_t i = 0; i < rows; ++i) png_read_row(s.png, nullptr, nullptr);
  });
  s.rows -= rows;
}

void PngDecoder::read(std::span<std::uint8_t> pixels, std::uint32_t rows) {
  State& s = *state_;
  const std::size_t row_bytes = std::size_t{3} * s.header.width;
  if (rows > s.rows || pixels.size() / row_bytes < rows ||
      (s.header.interlaced && rows < s.header.height)) {
    throw std::invalid_argument("leat: " + std::to_string(rows) +
                                " rows of a PNG image are not left, or have no room");
  }
  s.guarded([&] {
    for (int pass = 0; pass < s.passes; ++pass) {
      std::uint8_t* next = pixels.data();
      for (std::uint32_t i = 0; i < rows; ++i, next += row_bytes)
        png_read_row(s.png, next, nullptr);
    }
    if (rows == s.rows) png_read_end(s.png, nullptr);
  });
  s.rows -= rows;
}

}  // namespace leat::feeder
