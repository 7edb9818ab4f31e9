#include "bench/data/synthetic_images.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it and does not include it
#include <cstdlib>
#include <string>

// After <cstdio>.
#include <jpeglib.h>

#include "leat/csp/error.h"
#include "leat/feeder/random.h"

namespace leat::feeder {
namespace {

// An octave of noise. An amplitude of 256 is a byte's whole range.
struct Octave {
  unsigned shift;  // cells are 2^shift pixels wide
  int brightness;
  int color;
};
constexpr std::array<Octave, 7> kOctaves = {
    {{7, 90, 50}, {6, 70, 35}, {5, 55, 20}, {4, 45, 10}, {3, 36, 5}, {2, 30, 0}, {1, 26, 0}}};
constexpr int kNoise = 10;

int random_in(Random& random, int amplitude) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(2 * amplitude) + 1)) - amplitude;
}

// Adds an octave of noise, interpolated between the corners of cells, to every `step`-th value.
void add_octave(Random& random, unsigned shift, int amplitude, std::uint32_t width,
                std::uint32_t height, std::size_t step, int* values) {
  const std::size_t corners = (width >> shift) + 2;
  const int cell = 1 << shift;
  std::vector<int> above(corners);
  std::vector<int> below(corners);
  const auto fill = [&](std::vector<int>& row) {
    for (int& corner : row) corner = random_in(random, amplitude);
  };
  fill(below);
  for (std::uint32_t y = 0; y < height; ++y) {
    const int down = static_cast<int>(y) & (cell - 1);
    if (down == 0) {
      above.swap(below);
      fill(below);
    }
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::size_t corner = x >> shift;
      const int right = static_cast<int>(x) & (cell - 1);
      const int top = above[corner] * (cell - right) + above[corner + 1] * right;
      const int bottom = below[corner] * (cell - right) + below[corner + 1] * right;
      *values += (top * (cell - down) + bottom * down) >> (2 * shift);
      values += step;
    }
  }
}

struct Encoder {
  Encoder() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = [](j_common_ptr failed) {
      auto& self = *static_cast<Encoder*>(failed->client_data);
      failed->err->format_message(failed, self.message.data());
      std::longjmp(self.jump, 1);  // NOLINT(cert-err52-cpp): libjpeg's only way out
    };
    info.client_data = this;
  }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg allocated it so
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Returns false after an error. Owns nothing, because a longjmp may leave it.
  [[gnu::noinline]] bool encode(const JpegEncoding& how, const std::uint8_t* rows,
                                std::uint32_t width, std::uint32_t height) {
    if (setjmp(jump) != 0) return false;  // NOLINT(cert-err52-cpp)
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &bytes, &size);
    info.image_width = width;
    info.image_height = height;
    info.input_components = how.color == JpegColor::kGray   ? 1
                            : how.color == JpegColor::kCmyk ? 4
                                                            : 3;
    info.in_color_space = how.color == JpegColor::kGray   ? JCS_GRAYSCALE
                          : how.color == JpegColor::kCmyk ? JCS_CMYK
                                                          : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, how.quality, TRUE);
    if (how.color == JpegColor::kYcc) {
      info.comp_info[0].h_samp_factor = how.chroma_columns;
      info.comp_info[0].v_samp_factor = how.chroma_rows;
    }
    if (how.progressive) jpeg_simple_progression(&info);
    info.restart_in_rows = static_cast<int>(how.restart_rows);
    jpeg_start_compress(&info, TRUE);
    const std::size_t stride = std::size_t{width} * static_cast<unsigned>(info.input_components);
    while (info.next_scanline < info.image_height) {
      JSAMPROW row =
          const_cast<JSAMPROW>(rows + info.next_scanline * stride);  // libjpeg only reads it
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    return true;
  }

  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

}  // namespace

std::vector<std::uint8_t> synthetic_image(std::uint64_t seed, std::uint64_t index,
                                          std::uint32_t width, std::uint32_t height) {
  Random random(seed, 0, index);
  const std::size_t pixels = std::size_t{width} * height;
  std::vector<int> brightness(pixels, 128);
  std::vector<int> color(2 * pixels);  // offsets of red and of blue
  for (const Octave& octave : kOctaves) {
    add_octave(random, octave.shift, octave.brightness, width, height, 1, brightness.data());
    if (octave.color == 0) continue;
    for (std::size_t c = 0; c < 2; ++c) {
      add_octave(random, octave.shift, octave.color, width, height, 2, color.data() + c);
    }
  }
  std::vector<std::uint8_t> image(3 * pixels);
  const auto byte = [](int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); };
  for (std::size_t i = 0; i < pixels; ++i) {
    const int gray = brightness[i] + random_in(random, kNoise);
    const int red = color[2 * i];
    const int blue = color[2 * i + 1];
    image[3 * i] = byte(gray + red);
    image[3 * i + 1] = byte(gray - (red + blue) / 4);
    image[3 * i + 2] = byte(gray + blue);
  }
  return image;
}

std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, std::uint32_t width,
                                   std::uint32_t height, const JpegEncoding& encoding) {
  const std::size_t count = std::size_t{width} * height;
  std::vector<std::uint8_t> rows;
  if (encoding.color == JpegColor::kGray) {
    for (std::size_t i = 0; i < count; ++i) rows.push_back(pixels[3 * i]);
  } else if (encoding.color == JpegColor::kCmyk) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t c = 0; c < 3; ++c) rows.push_back(pixels[3 * i + c]);
      rows.push_back(255);
    }
  } else {
    rows.assign(pixels.begin(), pixels.end());
  }
  Encoder encoder;
  if (!encoder.encode(encoding, rows.data(), width, height)) {
    throw Error("leat: cannot make a JPEG image: " + std::string(encoder.message.data()) +
                "; change the JpegEncoding");
  }
  const auto* const first = reinterpret_cast<const std::byte*>(encoder.bytes);
  return {first, first + encoder.size};
}

}  // namespace leat::feeder
