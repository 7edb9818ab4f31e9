// The program's command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/schedule.h"

namespace pipelined {

struct Options {
  leat::pipeline::Kind kind = leat::pipeline::Kind::kOneFOneB;
  std::string schedule;  // a file, instead of a kind
  leat::pipeline::ScheduleShape shape = {.ranks = 4, .microbatches = 8};
  std::optional<int> capacity;
  std::size_t replicas = 1;
  bool mpi = false;  // else all ranks are in this process
  std::string device = "auto";
  std::string data = "examples/data/mnist";
  std::size_t batch_size = 64;  // of all replicas
  std::uint64_t steps = 300;    // 0: an epoch
  std::uint64_t seed = 1;
  float learning_rate = 0.05F;
  float min_accuracy = 0.0F;  // percent
  bool help = false;
};

/// Throws std::invalid_argument, saying which argument and what is expected.
[[nodiscard]] Options parse(int argc, char** argv);
[[nodiscard]] const char* usage() noexcept;
/// The schedule that is asked for. Throws leat::Error for a file that is none,
/// std::invalid_argument for a shape that the kind does not have.
[[nodiscard]] leat::pipeline::Schedule schedule_of(const Options& options);

}  // namespace pipelined
