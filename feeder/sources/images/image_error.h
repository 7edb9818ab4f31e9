// What is wrong with an image.
#pragma once

#include <string>
#include <string_view>

#include "leat/csp/error.h"

namespace leat::feeder {

/// Thrown for an image that is of another format than expected, is damaged or cut off, or is not as
/// declared. what() names no file: a caller that knows it combines its name with problem() and
/// advice().
class ImageError : public Error {
 public:
  /// `image`: "a PNG image", for what().
  ImageError(std::string_view image, const std::string& problem, const std::string& advice)
      : Error("leat: cannot read " + std::string(image) + ": " + problem + "; " + advice),
        problem_(problem),
        advice_(advice) {}
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  std::string problem_;
  std::string advice_;
};

}  // namespace leat::feeder
