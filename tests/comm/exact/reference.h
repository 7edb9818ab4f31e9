// What a step must take, computed without fibers and without comm: the formulas, and a plain loop
// over the events of the link and of the leader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/comm/step.h"

namespace leat::reference {

/// A step as plain numbers of nanoseconds and bytes.
struct Step {
  std::vector<std::vector<std::int64_t>> backward;  // of each rank, layers from the input
  std::vector<std::vector<std::int64_t>> forward;
  std::vector<std::int64_t> bytes;
  std::int64_t alpha = 0;
  std::int64_t bandwidth = 0;
  std::int64_t delta = 0;
  std::int64_t partition = 0;
  std::int64_t credit = 0;
  comm::Policy policy = comm::Policy::kFifo;
  bool synchronous = false;
  std::vector<std::int64_t> buckets;  // limits

  /// Bytes of an element: 4, or 1 if the tensors do not consist of such.
  [[nodiscard]] std::int64_t element() const;
  [[nodiscard]] std::size_t layers() const { return bytes.size(); }
  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(forward.size()); }
  /// How long an all-reduce of `size` bytes takes.
  [[nodiscard]] std::int64_t time_of(std::int64_t size) const;
  /// R of layer i: its backward has run on all ranks.
  [[nodiscard]] std::int64_t ready_at(std::size_t i) const;
  /// t of layer i: all of its pieces.
  [[nodiscard]] std::int64_t link_time(std::size_t i) const;
};

/// The same step for the program.
[[nodiscard]] bench::StepInstance to_instance(const Step& step);

/// What the loop over events finds.
struct Simulated {
  std::vector<std::int64_t> times;  // of each rank
  std::int64_t most_in_flight = 0;  // link time of the pieces that were in flight at once, the most
};
/// Plays the step. Written from the model alone: who may go next, and when.
[[nodiscard]] Simulated simulate(const Step& step);

/// max over k of [R_k + t_1 + ... + t_k], then all forwards of `rank`: fifo, and every policy that
/// is synchronous.
[[nodiscard]] std::int64_t one_after_the_other(const Step& step, std::size_t rank);
/// T*: max over k of [R_k + t_1 + ... + t_k + f_k + ... + f_L] of `rank`.
[[nodiscard]] std::int64_t bound(const Step& step, std::size_t rank);

}  // namespace leat::reference
