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

/// A place in an epoch's row: element number `element` is the `offset`-th of the sample at
/// `position`.
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

/// The field whose lengths count: the first field of variable length. Throws std::invalid_argument
/// if there is none.
[[nodiscard]] std::size_t packed_field(const Dataset& dataset);
/// The length of a sample, checked. Throws leat::Error if the dataset cannot tell it, or if it is
/// longer than declared.
[[nodiscard]] std::uint64_t packed_length(const Dataset& dataset, std::size_t field,
                                          std::uint64_t sample);
/// Elements of an epoch. Asks for every length.
[[nodiscard]] std::uint64_t packed_elements(const Dataset& dataset);

/// Whether `place` is a place in this dataset: a state may be of other data. Asks for the lengths
/// of all samples before it.
[[nodiscard]] bool is_place(const Dataset& dataset, const Sampler& sampler, std::uint64_t epoch,
                            const Carry& place);

/// Walks along an epoch. Keeps references. For one fiber.
class PackWalk {
 public:
  PackWalk(const Dataset& dataset, const Sampler& sampler);

  /// To the beginning of `epoch`; `known` is a place in it that may save a walk.
  void enter(std::uint64_t epoch, const std::optional<Carry>& known);
  /// To `element`, which may be the end; returns where that is. Backwards it begins anew.
  Carry seek(std::uint64_t element);
  /// Appends the pieces that the elements of `range` are, and goes behind them.
  void take(const PositionRange& range, std::vector<Piece>& out);

 private:
  [[nodiscard]] std::uint64_t length_here() const;

  const Dataset& dataset_;
  const Sampler& sampler_;
  const std::size_t field_;
  std::uint64_t epoch_ = 0;
  Carry start_;  // where it begins anew
  Carry at_;
};

}  // namespace leat::feeder
