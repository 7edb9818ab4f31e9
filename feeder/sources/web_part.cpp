#include "leat/feeder/sources/web_part.h"

#include <stdexcept>
#include <utility>

namespace leat::feeder {

WebPart any_image(std::string name, const ImageOptions& options,
                  std::vector<std::string> extensions) {
  return {image_field(std::move(name), options), std::move(extensions), WebPart::kImage, options};
}

WebPart jpeg_image(std::string name, const ImageOptions& options,
                   std::vector<std::string> extensions) {
  return any_image(std::move(name), options, std::move(extensions));
}

WebPart class_label(std::string name, std::vector<std::string> extensions) {
  return {{std::move(name), DType::kInt64, {}}, std::move(extensions), WebPart::kLabel};
}

WebPart raw_bytes(Field field, std::vector<std::string> extensions) {
  if (field.bytes() == 0) {
    throw std::invalid_argument("leat: field \"" + field.name + "\" has no bytes to be read into");
  }
  return {std::move(field), std::move(extensions), WebPart::kBytes};
}

std::string to_string(const WebPart& part) {
  std::string text = "\"" + part.field.name + "\" (";
  for (std::size_t i = 0; i < part.extensions.size(); ++i) {
    text += (i == 0 ? "." : ", .") + part.extensions[i];
  }
  return text + ")";
}

}  // namespace leat::feeder
