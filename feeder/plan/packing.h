// Packing: samples of variable length one after the other, without padding between them.
//
// An epoch is then one long row of elements: the elements of the sample at position 0, then of the
// sample at position 1, and so on. A global batch is the next batch_size elements of the row. A
// sample that does not fit is cut, and its rest begins the next batch, or the next rank's shard. So
// BatchPlan's positions are elements here. Walking along the row finds the samples of a batch. The
// place that a walk has reached is carried from batch to batch, and in a state, so that a resumed
// run does not walk from the beginning of the epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/sampler.h"

namespace leat::feeder {

/// A place in an epoch's row: element `element` is the `offset`-th of the sample at `position`.
struct Carry {
  std::uint64_t element = 0;
  std::uint64_t position = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const Carry&, const Carry&) = default;
};

/// A part of a sample, or all of it: elements first .. first + count.
struct Piece {
  std::uint64_t position = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Returns the field that determines a sample's length: the first field of variable length. Throws
/// std::invalid_argument if there is none, and for a dataset that varies by epoch.
[[nodiscard]] std::size_t packed_field(const Dataset& dataset);
/// Returns the length of a sample. Throws leat::Error if the dataset does not know the length, or
/// if the length exceeds the declared one.
[[nodiscard]] std::uint64_t packed_length(const Dataset& dataset, std::size_t field,
                                          std::uint64_t sample);
/// Returns the number of elements in an epoch. Asks the dataset for the length of every sample.
[[nodiscard]] std::uint64_t packed_elements(const Dataset& dataset);

/// Returns whether `place` exists in this dataset; a state may come from other data. Asks for the
/// lengths of all samples before it.
[[nodiscard]] bool is_place(const Dataset& dataset, const Sampler& sampler, std::uint64_t epoch,
                            const Carry& place);

/// Walks along an epoch's row of elements. Keeps references. For one fiber.
class PackWalk {
 public:
  PackWalk(const Dataset& dataset, const Sampler& sampler);

  /// Moves to `known`, a place in `epoch`; if empty, to the beginning of `epoch`.
  void enter(std::uint64_t epoch, const std::optional<Carry>& known);
  /// Moves to `element`, which may be the epoch's end, and returns its place. A move backwards
  /// walks from the place that enter() moved to, or from the beginning of the epoch.
  Carry seek(std::uint64_t element);
  /// Appends the pieces that make up the elements of `range`, and moves behind them.
  void take(const PositionRange& range, std::vector<Piece>& out);

 private:
  [[nodiscard]] std::uint64_t length_here() const;

  const Dataset& dataset_;
  const Sampler& sampler_;
  const std::size_t field_;
  std::uint64_t epoch_ = 0;
  Carry start_;  // where enter() moved to
  Carry at_;
};

}  // namespace leat::feeder
