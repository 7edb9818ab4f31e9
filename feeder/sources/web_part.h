// The parts of a WebDataset's samples: which file becomes which tensor, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/image.h"

namespace leat::feeder {

/// A part of every sample: which file it is, and what is made of it.
struct WebPart {
  enum Kind : std::uint8_t { kImage, kLabel, kBytes };

  Field field;
  std::vector<std::string> extensions;  // without the first dot; a sample has just one of them
  Kind kind = kBytes;
  ImageOptions image = {};  // of kImage
};

/// A JPEG image: image_field(name, options). Throws as that.
[[nodiscard]] WebPart jpeg_image(std::string name, const ImageOptions& options = {},
                                 std::vector<std::string> extensions = {"jpg", "jpeg"});
/// An integer in ASCII digits, perhaps among white space: int64, a scalar.
[[nodiscard]] WebPart class_label(std::string name, std::vector<std::string> extensions = {"cls"});
/// A file's bytes as they are. It has the field's size or, of a field of variable length, that of
/// some of its rows. Throws std::invalid_argument for a field of no bytes.
[[nodiscard]] WebPart raw_bytes(Field field, std::vector<std::string> extensions);

/// "image" (.jpg, .jpeg), for messages.
[[nodiscard]] std::string to_string(const WebPart& part);

}  // namespace leat::feeder
