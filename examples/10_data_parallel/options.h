// The program's command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"

namespace data_parallel {

struct Options {
  std::string transport = "local";
  int ranks = 4;    // "local" only; mpirun says how many there are
  int servers = 0;  // the last ranks serve the parameters, and do not train; 0: an exchange
  bool asynchronous = false;     // of the servers
  std::optional<int> staleness;  // likewise
  std::string device = "auto";
  std::string data = "examples/data/mnist";
  std::size_t global_batch = 256;  // samples of all ranks
  std::uint64_t epochs = 1;
  std::uint64_t steps = 0;  // 0: whole epochs
  std::uint64_t seed = 1;
  float learning_rate = 0.04F;
  float min_accuracy = 0.0F;  // percent
  leat::comm::ExchangeOptions exchange;
  leat::comm::OpenOptions open;
  bool help = false;
};

/// Throws std::invalid_argument, saying which argument and what is expected.
[[nodiscard]] Options parse(int argc, char** argv);
[[nodiscard]] const char* usage() noexcept;

}  // namespace data_parallel
