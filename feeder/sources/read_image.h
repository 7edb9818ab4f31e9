// Decoding, cropping and resizing an image into a field of a sample: for WebDataset and
// ImageFolder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "leat/feeder/random.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/sources/image.h"
#include "leat/feeder/sources/jpeg.h"
#include "leat/feeder/sources/resize.h"

namespace leat::feeder {

/// Returns the resize of an image of this size. Draws the box of a random crop from `random` and
/// then, if mirror is not 0, whether the image is mirrored. With Fit::kExact, throws ImageError for
/// another size.
[[nodiscard]] Resize resize_for(const ImageOptions& options, std::uint32_t width,
                                std::uint32_t height, Random& random);

/// Returns whether the resize leaves an image of this size as it is.
[[nodiscard]] bool is_unchanged(const Resize& resize, std::uint32_t width,
                                std::uint32_t height) noexcept;

/// Decodes the JPEG image `bytes` into field `field` of `out`, which is image_field(options), with
/// the random numbers and scratch memory of `out`. `decoder` has the options of the image; no other
/// thread may use it meanwhile. Throws JpegError. Never parks.
void read_image(std::span<const std::byte> bytes, const ImageOptions& options, JpegDecoder& decoder,
                Sample& out, std::size_t field);

/// Decodes an image of any format that is read, which its first bytes tell. Otherwise as above.
/// Throws ImageError.
void read_image(std::span<const std::byte> bytes, const ImageOptions& options, Sample& out,
                std::size_t field);

}  // namespace leat::feeder
