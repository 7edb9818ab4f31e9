// The parts of the samples of a WebDataset: which file becomes which tensor, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/image.h"

namespace leat::feeder {

/// A part of every sample: one file, and the tensor that it becomes. A value.
struct WebPart {
  /// How the file is read: as an image of any format that is read, as an integer in ASCII, or as
  /// bytes.
  enum Kind : std::uint8_t { kImage, kLabel, kBytes };

  Field field;
  std::vector<std::string> extensions;  ///< without the first dot; a sample has exactly one of them
  Kind kind = kBytes;
  ImageOptions image = {};  ///< of kImage
};

/// An image as the tensor image_field(name, options): JPEG, PNG or WebP by its first bytes,
/// whatever its name says. Throws as image_field() does.
[[nodiscard]] WebPart any_image(std::string name, const ImageOptions& options = {},
                                std::vector<std::string> extensions = {"jpg", "jpeg", "png",
                                                                       "webp"});
/// The same, of files that are called .jpg or .jpeg. For samples with several images.
[[nodiscard]] WebPart jpeg_image(std::string name, const ImageOptions& options = {},
                                 std::vector<std::string> extensions = {"jpg", "jpeg"});
/// An integer in ASCII digits, with or without white space around it, as an int64 scalar.
[[nodiscard]] WebPart class_label(std::string name, std::vector<std::string> extensions = {"cls"});
/// The bytes of a file, unchanged. The file has the size of the field or, if its length is
/// variable, of a whole number of its rows. A sample fails if a byte of a bool is neither 0 nor 1.
/// Throws std::invalid_argument for a field without bytes.
[[nodiscard]] WebPart raw_bytes(Field field, std::vector<std::string> extensions);

/// A text for messages: "image" (.jpg, .jpeg).
[[nodiscard]] std::string to_string(const WebPart& part);

}  // namespace leat::feeder
