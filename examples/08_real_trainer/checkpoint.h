// What a run needs to go on: in a file that is either whole or not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// How far a run has come: its steps, and what they add up to in the epoch under way.
struct Progress {
  std::uint64_t steps = 0;
  std::uint64_t epoch = 0;
  double loss = 0;
  double samples = 0;
};

struct Checkpoint {
  Progress progress;
  std::string feed;            // Prefetcher::state()
  std::vector<float> weights;  // parameters, then their velocities
};

/// Writes beside `file` and renames: whatever happens, `file` is the old checkpoint or the new one.
/// Throws leat::Error, with file and reason. Blocks the thread.
void save(const Checkpoint& checkpoint, const std::string& file);
/// Of `weights` weights. Throws leat::Error, saying what is wrong, for a file that is none.
[[nodiscard]] Checkpoint load(const std::string& file, std::size_t weights);

}  // namespace trainer
