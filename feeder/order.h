// In which order an epoch visits the samples, and what becomes of its last batch.
#pragma once

#include <cstdint>

namespace leat::feeder {

/// In which order an epoch visits the samples (feeder/plan/sampler.h).
enum class Order : std::uint8_t {
  kSequential,  // 0, 1, 2, ...
  kShuffled,    // a permutation, which (seed, epoch) determines
  kDrawn,       // the caller's, batch by batch (Feed::draw)
};
/// "sequential", "shuffled", "drawn".
[[nodiscard]] const char* to_string(Order order) noexcept;

/// What becomes of an epoch's last batch if the samples do not fill it.
enum class LastBatch : std::uint8_t {
  kPartial,  // it is delivered with fewer samples
  kDrop,     // it is left out
  kPad,      // it is delivered in full shape: the rows behind its samples are zero
  kWrap,     // it is filled up with the epoch's first samples, which are delivered twice
};
/// "partial", "drop", "pad", "wrap".
[[nodiscard]] const char* to_string(LastBatch last) noexcept;

}  // namespace leat::feeder
