// Which batch a rank has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "leat/feeder/plan/packing.h"

namespace leat::feeder {

/// A rank's part of a global batch.
struct BatchId {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;         // the global batch's number in the epoch
  std::size_t samples = 0;         // of this rank
  std::size_t rows = 0;            // samples and padding
  std::size_t elements = 0;        // of packed samples
  std::size_t element_rows = 0;    // elements and padding
  Carry carry;                     // where the packed shard begins
  std::uint64_t step_samples = 0;  // samples (packed: elements) of all ranks
  std::size_t step_shards = 0;     // ranks that have samples
};

/// "batch 5 of epoch 0".
[[nodiscard]] std::string name_of(const BatchId& batch);

}  // namespace leat::feeder
