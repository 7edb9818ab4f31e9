// Real data in place of a shape's: the datasets that --data names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "leat/feeder/dataset.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// Returns the forms that open_dataset() takes, for --help.
[[nodiscard]] std::string dataset_forms();

/// Opens the dataset that `what` names:
///   mnist:DIRECTORY          the training set
///   cifar10:FILES            its binary version
///   tokens:LENGTH:FILES      windows of LENGTH tokens
///   records:BYTES:FILES      records of BYTES bytes
///   web:FILES                tar shards of JPEG images, resized to 224 x 224, and labels
/// FILES is as in feeder/sources/files.h. Throws std::invalid_argument for another format, and
/// leat::Error as the dataset does.
[[nodiscard]] std::unique_ptr<const leat::feeder::Dataset> open_dataset(std::string_view what);

/// Returns `shape` with the name, tensors and sample size of `data`, and without a reading time.
[[nodiscard]] Shape shape_of(const Shape& shape, const leat::feeder::Dataset& data);

}  // namespace overlap
