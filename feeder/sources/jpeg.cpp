// Always true:
//
//  - libjpeg reports an error by a longjmp to guarded(), over frames of C and of one lambda, which
//    own nothing. Exceptions are thrown after that, never through libjpeg.
//  - libjpeg is never suspended. It has all bytes from the beginning. If it wants more, the image
//    is cut off.
#include "leat/feeder/sources/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it and does not include it
#include <stdexcept>
#include <vector>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/images/formats.h"

// After <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

namespace leat::feeder {
namespace {

// A progressive image refines all its pixels in each scan. Encoders make about 10 scans. An image
// with thousands of scans is an attack that would take very long to decode.
constexpr int kMaxScans = 500;

// Extra columns that are decoded on each side. A pixel depends on its neighbours by the
// interpolation of chroma, and one chroma sample covers four pixels at most. With these columns,
// the wanted pixels equal those of the whole image.
constexpr std::uint32_t kMargin = 8;

// The rows requested from libjpeg at a time. It never has more than 16 ready.
constexpr std::uint32_t kRowsAtOnce = 16;

constexpr const char* kConvert =
    "convert it to a baseline or progressive JPEG image of 8 bits, or leave it out "
    "(the option read_failures of the prefetcher)";

// Multiplies two bytes as fractions of 255, rounded as Pillow does.
std::uint8_t multiply(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

// 255 means no ink, as Adobe writes it. Other programs do the same and leave out Adobe's marker.
void rgb_from_cmyk(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t pixels) {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>(cmyk[3] - multiply(255U - cmyk[c], cmyk[3]));
    }
  }
}

// Whether a scaled image may be cropped. Before version 3, jpeg_crop_scanline() of libjpeg-turbo
// computes a component's width as if it were not scaled. The component is then interpolated only in
// part, and the rest of its row is uninitialized memory. This affects components that remain
// subsampled in one direction after scaling: one sample for 4 x 2 or 2 x 4 pixels. The version is
// not asked for: such images are rare, and without a crop they are only slower.
bool may_crop_scaled(const jpeg_decompress_struct& info) {
  return std::all_of(info.comp_info, info.comp_info + info.num_components, [&](const auto& one) {
    return info.max_h_samp_factor * info.max_v_samp_factor <
           8 * one.h_samp_factor * one.v_samp_factor;
  });
}

}  // namespace

struct JpegDecoder::State {
  explicit State(const JpegOptions& wanted) : options(wanted) {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr failed) { of(failed).fail_as_libjpeg_says(); };
    errors.emit_message = [](j_common_ptr warned, int level) { of(warned).warned(level); };
    errors.output_message = [](j_common_ptr) {};
    progress.progress_monitor = [](j_common_ptr here) {
      State& state = of(here);
      if (state.info.input_scan_number > kMaxScans) state.fail("more than 500 scans");
    };
    source.init_source = [](j_decompress_ptr) {};
    source.fill_input_buffer = [](j_decompress_ptr cut) -> boolean {
      of(reinterpret_cast<j_common_ptr>(cut)).fail("Premature end of JPEG file");
    };
    source.skip_input_data = [](j_decompress_ptr reader, long count) {
      jpeg_source_mgr& from = *reader->src;
      if (count <= 0) return;
      if (static_cast<std::size_t>(count) > from.bytes_in_buffer) from.fill_input_buffer(reader);
      from.next_input_byte += count;
      from.bytes_in_buffer -= static_cast<std::size_t>(count);
    };
    source.resync_to_restart = jpeg_resync_to_restart;
    source.term_source = [](j_decompress_ptr) {};
    guarded([this] { jpeg_create_decompress(&info); });
    info.src = &source;
    info.progress = &progress;
  }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;  // libjpeg's state points into it
  State& operator=(const State&) = delete;

  static State& of(j_common_ptr any) { return *static_cast<State*>(any->client_data); }

  // Calls libjpeg. `calls` must own nothing: an error leaves it by a longjmp.
  template <class F>
  void guarded(const F& calls) {
    if (!returns(calls)) {
      throw JpegError(message.data() + std::string(", near byte ") + std::to_string(position()) +
                          " of " + std::to_string(size),
                      is_unsupported() ? kConvert : kFetchAgain);
    }
  }
  template <class F>
  [[gnu::noinline]] bool returns(const F& calls) {
    if (setjmp(jump) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg's only way out
    calls();
    return true;
  }

  [[noreturn]] void fail(const char* problem) {
    errors.msg_code = 0;
    std::snprintf(message.data(), message.size(), "%s", problem);
    std::longjmp(jump, 1);  // NOLINT(cert-err52-cpp)
  }
  [[noreturn]] void fail_as_libjpeg_says() {
    errors.format_message(reinterpret_cast<j_common_ptr>(&info), message.data());
    std::longjmp(jump, 1);  // NOLINT(cert-err52-cpp)
  }
  // Whether the image may be whole, of a kind that libjpeg cannot decode.
  [[nodiscard]] bool is_unsupported() const {
    switch (errors.msg_code) {
      case JERR_ARITH_NOTIMPL:
      case JERR_BAD_PRECISION:
      case JERR_CCIR601_NOTIMPL:
      case JERR_CONVERSION_NOTIMPL:
      case JERR_FRACT_SAMPLE_NOTIMPL:
      case JERR_SOF_UNSUPPORTED: return true;
      default: return false;
    }
  }
  void warned(int level) {
    if (level >= 0) return;  // traces
    // A header of an unknown version does not affect the pixels.
    if (errors.msg_code == JWRN_ADOBE_XFORM || errors.msg_code == JWRN_JFIF_MAJOR) return;
    if (!options.accept_corrupt) fail_as_libjpeg_says();
    ++warnings;
  }

  [[nodiscard]] std::size_t position() const { return size - source.bytes_in_buffer; }

  JpegOptions options;
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  std::size_t size = 0;       // of the image, in bytes
  unsigned warnings = 0;      // of this image
  std::uint32_t rows = 0;     // rows of the region still to be read
  std::vector<JSAMPLE> cmyk;  // one row, for images that libjpeg cannot convert to RGB
};

JpegDecoder::JpegDecoder(const JpegOptions& options) : state_(std::make_unique<State>(options)) {}
JpegDecoder::~JpegDecoder() = default;

unsigned JpegDecoder::warnings() const noexcept { return state_->warnings; }

JpegHeader JpegDecoder::open(std::span<const std::byte> bytes) {
  State& s = *state_;
  jpeg_abort_decompress(&s.info);
  if (const KnownImage found = known_image(bytes); found.format != ImageFormat::kJpeg) {
    throw JpegError(std::string("it is ") + found.name, kConvert);
  }
  s.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  s.source.bytes_in_buffer = s.size = bytes.size();
  s.warnings = 0;
  s.rows = 0;
  s.guarded([&] { jpeg_read_header(&s.info, TRUE); });
  const JpegHeader header{s.info.image_width, s.info.image_height,
                          static_cast<unsigned>(s.info.num_components),
                          s.info.progressive_mode != FALSE};
  if (std::uint64_t{header.width} * header.height > s.options.max_pixels) {
    throw JpegError("its header announces " + std::to_string(header.width) + " x " +
                        std::to_string(header.height) + " pixels, more than the " +
                        std::to_string(s.options.max_pixels) + " that are accepted",
                    "if that is so, raise the option max_pixels");
  }
  return header;
}

JpegRegion JpegDecoder::start(const JpegRegion& wanted, unsigned denominator) {
  State& s = *state_;
  if (denominator != 1 && denominator != 2 && denominator != 4 && denominator != 8) {
    throw std::invalid_argument("leat: a JPEG image is decoded at 1, 1/2, 1/4 or 1/8, not 1/" +
                                std::to_string(denominator));
  }
  const std::uint32_t width = (s.info.image_width + denominator - 1) / denominator;
  const std::uint32_t height = (s.info.image_height + denominator - 1) / denominator;
  if (wanted.width == 0 || wanted.height == 0 || wanted.left >= width || wanted.top >= height ||
      wanted.width > width - wanted.left || wanted.height > height - wanted.top) {
    throw std::invalid_argument("leat: the region of a JPEG image is empty, or not in it");
  }
  const bool is_cmyk = s.info.num_components == 4;
  s.info.scale_num = 8 / denominator;
  s.info.scale_denom = 8;
  s.info.dct_method = JDCT_ISLOW;
  s.info.do_fancy_upsampling = TRUE;
  s.info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;

  JDIMENSION left = wanted.left - std::min(wanted.left, kMargin);
  JDIMENSION columns = std::min(width, wanted.left + wanted.width + kMargin) - left;
  s.guarded([&] {
    jpeg_start_decompress(&s.info);
    if (denominator > 1 && !may_crop_scaled(s.info)) left = 0, columns = s.info.output_width;
    if (columns < s.info.output_width) jpeg_crop_scanline(&s.info, &left, &columns);
    if (wanted.top > 0) jpeg_skip_scanlines(&s.info, wanted.top);
  });
  s.rows = wanted.height;
  if (is_cmyk) s.cmyk.resize(std::size_t{4} * s.info.output_width);
  return {left, wanted.top, s.info.output_width, wanted.height};
}

void JpegDecoder::read(std::span<std::uint8_t> pixels, std::uint32_t rows) {
  State& s = *state_;
  const std::size_t row_bytes = std::size_t{3} * s.info.output_width;
  if (rows > s.rows || pixels.size() < row_bytes * rows) {
    throw std::invalid_argument("leat: " + std::to_string(rows) +
                                " rows of a JPEG image are not left, or have no room");
  }
  s.guarded([&] {
    std::uint8_t* next = pixels.data();
    for (std::uint32_t left = rows; left > 0;) {
      JDIMENSION done = 0;
      if (s.info.out_color_space == JCS_CMYK) {
        JSAMPROW row = s.cmyk.data();
        done = jpeg_read_scanlines(&s.info, &row, 1);
        rgb_from_cmyk(row, next, s.info.output_width);
      } else {
        std::array<JSAMPROW, kRowsAtOnce> to;  // NOLINT(cppcoreguidelines-pro-type-member-init)
        const std::uint32_t now = std::min(left, kRowsAtOnce);
        for (std::uint32_t i = 0; i < now; ++i) to[i] = next + i * row_bytes;
        done = jpeg_read_scanlines(&s.info, to.data(), now);
      }
      if (done == 0) s.fail("libjpeg stopped");
      next += done * row_bytes;
      left -= done;
    }
    s.rows -= rows;
    // After the last row of the image, reads to the end of its data, to detect a cut.
    if (s.rows == 0 && s.info.output_scanline == s.info.output_height) {
      jpeg_finish_decompress(&s.info);
    }
  });
}

}  // namespace leat::feeder
