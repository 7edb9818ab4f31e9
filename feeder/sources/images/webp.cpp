#include "leat/feeder/sources/images/webp.h"

#include <webp/decode.h>

#include <stdexcept>
#include <string>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/images/formats.h"
#include "leat/feeder/sources/images/image_error.h"

namespace leat::feeder {
namespace {

constexpr const char* kWebpImage = "a WebP image";

const std::uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

// A name of libwebp's, which has no texts.
const char* webp_problem(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "libwebp finds no memory for it";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "it is of a kind that libwebp does not decode";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return "it is cut off";
    default: return "it is damaged";
  }
}

[[noreturn]] void fail_webp(const std::string& problem, std::span<const std::byte> bytes) {
  throw ImageError(kWebpImage, problem + "; it has " + std::to_string(bytes.size()) + " bytes",
                   kFetchAgain);
}

// Throws if the file is shorter than its first bytes say.
void check_riff(std::span<const std::byte> bytes) {
  constexpr std::size_t kBegin = 8;  // "RIFF", and the bytes behind this
  if (bytes.size() < kBegin) fail_webp("it is cut off", bytes);
  std::uint64_t length = kBegin;
  for (std::size_t i = 0; i < 4; ++i)
    length += std::to_integer<std::uint64_t>(bytes[4 + i]) << (8 * i);
  if (bytes.size() < length) {
    fail_webp("it is cut off: its first bytes announce " + std::to_string(length), bytes);
  }
}

}  // namespace

const bool kReadsWebp = true;

WebpHeader open_webp(std::span<const std::byte> bytes, std::uint64_t max_pixels) {
  check_riff(bytes);
  WebPBitstreamFeatures found{};
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &found);
  if (status != VP8_STATUS_OK) fail_webp(webp_problem(status), bytes);
  if (found.has_animation != 0) {
    throw ImageError(kWebpImage, "it is an animation",
                     "save the frame that is wanted, or leave it out "
                     "(the option read_failures of the prefetcher)");
  }
  const WebpHeader header{static_cast<std::uint32_t>(found.width),
                          static_cast<std::uint32_t>(found.height)};
  check_pixels(kWebpImage, header.width, header.height, max_pixels);
  return header;
}

void read_webp(std::span<const std::byte> bytes, const WebpHeader& header,
               std::span<std::uint8_t> pixels) {
  const std::size_t row_bytes = std::size_t{3} * header.width;
  const std::size_t size = row_bytes * header.height;
  if (pixels.size() < size) throw std::invalid_argument("leat: no room for a WebP image");
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    throw ImageError(kWebpImage, "libwebp is of another version than its header",
                     "build Leat anew");
  }
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels.data(), static_cast<int>(row_bytes), size};
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) fail_webp(webp_problem(status), bytes);
}

}  // namespace leat::feeder
