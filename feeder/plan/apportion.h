// Apportionment: how many samples of an epoch each part of a mixture has, and at which places.
//
// Always true:
//
//  - Counts add up to the epoch's samples, and each differs from its exact share by less than 1
//    (largest remainder, as seats are apportioned to parties).
//  - A prefix of the places has at most ceil(log2 parts) / 2 samples of a part more or fewer than
//    the part's share of it; a window, at most twice that.
//  - Integers alone decide, so every machine has the same places. They must never change: a run
//    that resumes relies on them, as on Sampler's order. tests/feeder/plan/apportion_test.cpp pins
//    them down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace leat::feeder {

/// An unsigned integer of 128 bits.
__extension__ using Uint128 = unsigned __int128;

/// A weight, for messages: "0.25", "1e-09".
[[nodiscard]] std::string weight_text(double weight);

/// Returns the weights as integers: exact for the largest, to 2^-53 of it for the others. Throws
/// std::invalid_argument, with its place, for a weight that is negative, infinite or not a number,
/// and if no weight is above 0.
[[nodiscard]] std::vector<std::uint64_t> integer_weights(std::span<const double> weights);

/// Divides `total` in proportion to `weights`, by the largest remainder; of equal ones, the first
/// has it. Throws std::invalid_argument if no weight is above 0.
[[nodiscard]] std::vector<std::uint64_t> apportioned(std::span<const std::uint64_t> weights,
                                                     std::uint64_t total);

/// The places of several parts in an epoch, evenly interleaved: the list of parts is halved, each
/// place belongs to the half that is behind its share by half a sample, and so on in that half. A
/// value. Const functions are thread-safe.
class Interleaving {
 public:
  /// Part k has counts[k] places. At least one part.
  explicit Interleaving(std::span<const std::uint64_t> counts);

  /// What is at a place.
  struct Found {
    std::size_t part;
    std::uint64_t number;  ///< how many places before it are the part's
  };
  /// Returns what is at `place`, which is below the sum of the counts.
  [[nodiscard]] Found find(std::uint64_t place) const noexcept;

 private:
  // A list of parts that is halved. Its left half is the next node; behind that half's nodes is the
  // right half.
  struct Node {
    std::uint64_t all;      // places
    std::uint64_t left;     // of them, of the left half
    std::uint64_t inverse;  // floor((2^64 - 1) / all)
  };
  void add(std::span<const std::uint64_t> counts);
  template <class Halve>
  [[nodiscard]] Found walk(std::uint64_t place, const Halve& halve) const noexcept;

  std::size_t parts_;
  bool is_narrow_ = false;  // all places, and so the products below, fit in 64 bits
  std::vector<Node> nodes_;
};

}  // namespace leat::feeder
