// Real data in place of a shape's: which dataset an argument names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "leat/feeder/dataset.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// What open_dataset() understands, for --help.
[[nodiscard]] std::string dataset_forms();

/// The dataset that `what` names, a format and files:
///   mnist:DIRECTORY          the training set
///   cifar10:FILES            its binary version
///   tokens:LENGTH:FILES      windows of so many tokens
///   records:BYTES:FILES      records of so many bytes
///   web:FILES                tar shards of JPEG images, resized to 224 x 224, and labels
/// FILES as in feeder/sources/files.h. Throws std::invalid_argument for no such format, leat::Error
/// as the format does.
[[nodiscard]] std::unique_ptr<const leat::feeder::Dataset> open_dataset(std::string_view what);

/// `shape` with the name, tensors and bytes of a sample of `data`, and no reading time of its own.
[[nodiscard]] Shape shape_of(const Shape& shape, const leat::feeder::Dataset& data);

}  // namespace overlap
