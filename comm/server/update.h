// What an optimizer does to a piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "leat/comm/parameter_server.h"

namespace leat::comm {

/// How many values beside the weight an optimizer keeps of each element: 0, 1 or 2.
[[nodiscard]] std::size_t states_of(const Optimizer& optimizer) noexcept;

/// Reads `count` weights, updates them with the gradient, and writes them to `updated`, which may
/// be `weights`. `state`: states_of() times `count` values, 0 before the first update. `step`:
/// updates of these weights are numbered from 1. Multiplications and additions are separate, so the
/// bits are the same on every machine. Thread-safe: no state of its own.
void update(const Optimizer& optimizer, const float* weights, float* updated, const float* gradient,
            float* state, std::size_t count, std::uint64_t step) noexcept;

/// A piece's weights, and what the optimizer keeps of them. A version that is being sent does not
/// change: an update then writes to other memory. For one fiber at a time.
class OwnedWeights {
 public:
  /// One of the versions that are in memory.
  struct Version {
    std::vector<float> values;
    int readers = 0;  ///< sends under way
  };
  /// `count` zeros. Keeps a reference to the optimizer.
  OwnedWeights(const Optimizer& optimizer, std::size_t count);
  /// The address stays valid while the version has readers.
  [[nodiscard]] Version& latest() noexcept { return *latest_; }
  /// `gradient`: as many values.
  void update(const float* gradient);

 private:
  const Optimizer* optimizer_;
  std::vector<std::unique_ptr<Version>> versions_;
  Version* latest_;
  std::vector<float> state_;
  std::uint64_t updates_ = 0;
};

}  // namespace leat::comm
