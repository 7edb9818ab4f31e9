// The step times of measured models under each policy: what order and overlap are worth.
#pragma once

#include <string>
#include <vector>

#include "bench/comm/step.h"

namespace bench {

/// A model: its layers' sizes and times, from the input.
struct Profile {
  std::string name;
  std::vector<std::size_t> bytes;
  RankLayers layers;
};

/// The profiles of the JSON file `path`:
///   {"profiles": {"vgg16": {"layers": [["name", bytes, forward ms, backward ms], ...]}, ...}}
/// Throws std::runtime_error, which names the file and the field.
[[nodiscard]] std::vector<Profile> read_profiles(const std::string& path);

/// One row of the table: times of a step in milliseconds.
struct ProfileRow {
  double no_overlap = 0;     ///< backward, then communication, then forward
  double bucketed = 0;       ///< buckets of 1 MiB, then 25 MiB
  double fifo = 0;           ///< pieces of 4,096,000 bytes, one in flight
  double priority_one = 0;   ///< likewise
  double priority_four = 0;  ///< likewise, four in flight
  double bound = 0;          ///< T*: what no order of pieces can beat
};

/// Simulates `profile` on 8 ranks with a link of `gigabits` Gb/s and alpha 0.
[[nodiscard]] ProfileRow measure(const Profile& profile, double gigabits);

}  // namespace bench
