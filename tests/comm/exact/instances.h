// Random steps. A seed is an instance; small numbers, so that instants coincide often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/comm/exact/reference.h"

namespace leat::reference {

/// A source of small random numbers.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  /// From `least` to `most`.
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  /// True in `percent` of the throws.
  bool hits(int percent) { return number(1, 100) <= percent; }
  /// One of `values`.
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(
        number(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

/// A multiple of so many bytes takes whole nanoseconds on 1 to 4 ranks at 1 GB/s.
inline constexpr std::int64_t kEven = 12;

/// Any step of `policy`: times that are 0, empty tensors, ranks that differ or not, an alpha or
/// none, pieces larger than tensors and smaller, a credit of less than a piece and of many.
inline Step any_step(std::uint32_t seed, comm::Policy policy) {
  Dice dice(seed);
  Step step;
  step.policy = policy;
  step.bandwidth = dice.hits(80) ? 1'000'000'000 : dice.number(1, 3'000'000'000);
  step.alpha = dice.hits(50) ? 0 : dice.number(1, 30);
  const auto layers = static_cast<std::size_t>(dice.number(1, 8));
  const auto ranks = static_cast<std::size_t>(dice.number(1, 4));
  const std::int64_t longest = dice.one_of<std::int64_t>({3, 50, 400});
  const auto time = [&] { return dice.hits(15) ? 0 : dice.number(0, longest); };
  const bool alike = dice.hits(30);
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<std::int64_t> backward;
    std::vector<std::int64_t> forward;
    for (std::size_t i = 0; i < layers; ++i) {
      backward.push_back(time());
      forward.push_back(time());
    }
    step.backward.push_back(alike && r > 0 ? step.backward[0] : backward);
    step.forward.push_back(alike && r > 0 ? step.forward[0] : forward);
  }
  const std::int64_t unit = dice.hits(70) ? kEven : dice.hits(70) ? 4 : 1;
  for (std::size_t i = 0; i < layers; ++i) {
    step.bytes.push_back(dice.hits(10) ? 0 : unit * dice.number(1, 30));
  }
  step.partition = dice.hits(20) ? dice.number(1, 30) : unit * dice.number(1, 40);
  step.credit = dice.one_of<std::int64_t>(
      {1, step.partition, 2 * step.partition, dice.number(1, 8 * step.partition), 1'000'000});
  step.buckets.push_back(dice.number(1, 300));
  if (dice.hits(60)) step.buckets.push_back(dice.number(1, 600));
  return step;
}

/// A step whose first tensor takes time: then fifo's formula holds.
inline Step any_step_with_a_first_tensor(std::uint32_t seed, comm::Policy policy) {
  Step step = any_step(seed, policy);
  if (step.link_time(0) == 0) {
    step.bytes[0] = std::max<std::int64_t>(step.bytes[0], kEven);
    if (step.link_time(0) == 0) step.alpha = 1;  // one rank
  }
  return step;
}

/// A step in units of one piece's time: all pieces are whole, one is in flight, and backwards and
/// the link take multiples of one piece. Then T* is reached.
inline Step whole_pieces(std::uint32_t seed) {
  Step step = any_step(seed, comm::Policy::kPriority);
  Dice dice(~seed);
  step.bandwidth = 1'000'000'000;
  step.partition = kEven * dice.number(1, 10);
  step.credit = dice.number(1, step.partition);
  for (std::int64_t& size : step.bytes) size = step.partition * dice.number(0, 6);
  const std::int64_t piece = step.time_of(step.partition);
  for (auto& rank : step.backward) {
    for (std::int64_t& time : rank) time = piece * dice.number(0, 4);
  }
  return step;
}

/// A step whose control messages take time, with enough pieces in flight to hide them: c whole
/// pieces of time p, (c - 1) * p >= delta. `pieces` gets c.
inline Step slow_messages(std::uint32_t seed, std::int64_t& pieces) {
  Step step = any_step(seed, comm::Policy::kPriority);
  Dice dice(~seed);
  step.bandwidth = 1'000'000'000;
  step.partition = kEven * dice.number(1, 10);
  for (std::int64_t& size : step.bytes) size = step.partition * dice.number(0, 8);
  const std::int64_t piece = step.time_of(step.partition);
  pieces = dice.number(piece == 0 ? 1 : 2, 6);
  step.delta = piece == 0 ? 0 : dice.number(1, (pieces - 1) * piece);
  step.credit = pieces * step.partition + dice.number(0, step.partition - 1);
  return step;
}

}  // namespace leat::reference
