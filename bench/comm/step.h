// One training step in virtual time: the exchange that trains, on a modelled link, with sleeps for
// the computing.
//
// Example
//   const bench::StepInstance instance = bench::read_instance("step.json");
//   for (const leat::Duration time : bench::run_step(instance)) std::printf("%ld\n", time.count());
//
// The ranks start together. Each runs the backward of layers L to 1, then the next forward of
// layers 1 to L; its time ends with the forward of layer L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leat/comm/completion.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/comm/parameter_server.h"
#include "leat/csp/clock.h"

namespace bench {

/// What one rank computes: times of the layers, from the input.
struct RankLayers {
  std::vector<leat::Duration> backward;
  std::vector<leat::Duration> forward;
};

/// A step to be simulated. A value.
struct StepInstance {
  std::vector<RankLayers> ranks;
  std::vector<std::size_t> bytes;  ///< of the layers' gradients, from the input
  leat::Duration alpha = leat::Duration::zero();
  double bandwidth = 0;  ///< bytes per second, more than 0
  leat::Duration delta = leat::Duration::zero();
  leat::comm::ExchangeOptions options;
  /// Ranks that serve, beside those that compute: a synchronous ParameterServer in place of an
  /// exchange. 0: an exchange.
  int servers = 0;
};

/// The instance in the JSON file `path` ("-": the standard input), which has what `bench_comm_step
/// --help` tells. ranks, bytes and bandwidth have to be there. Of mode "server", "synchronous" says
/// that a forward waits for all weights, and the link is a line in each direction. Times are
/// rounded to whole nanoseconds. Fields of other names are ignored; `ignored` gets them. Throws
/// std::runtime_error, which names the file and the field.
[[nodiscard]] StepInstance read_instance(const std::string& path,
                                         std::vector<std::string>* ignored = nullptr);
/// As read_instance(), from the text itself. Errors name `path`.
[[nodiscard]] StepInstance parse_instance(const std::string& text, const std::string& path,
                                          std::vector<std::string>* ignored = nullptr);

/// A worker's step with parameter servers: layer i's gradient leaves behind its backward, and its
/// weights are fetched before its forward; if `synchronous`, all of them before the first. Returns
/// what was sent, whose end the caller awaits.
[[nodiscard]] std::vector<leat::comm::Completion> train_step(leat::comm::ParameterServer& server,
                                                             const RankLayers& layers,
                                                             bool synchronous = false);

/// Runs the step on a VirtualClock and returns each rank's time. Called on a plain thread.
[[nodiscard]] std::vector<leat::Duration> run_step(const StepInstance& instance);

}  // namespace bench
