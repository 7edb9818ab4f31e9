// One training step in virtual time: `bench_comm_step --help`.

#include "bench/comm/step.h"

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr const char* kUsage = R"(Usage: bench_comm_step FILE

Simulates a backward and the next forward of data-parallel ranks, exactly: the code that trains,
on a virtual clock and a modelled link. Prints each rank's time in nanoseconds, a line each.
FILE (-: the standard input) has, with layers from the input:

  {"ranks": [{"b": [ns, ...], "f": [ns, ...]}, ...],     backward and forward
   "bytes": [...],                       of the gradients
   "bandwidth": bytes/s, "alpha": ns,    of the link; an all-reduce of s bytes on n ranks
                                         takes alpha + 2(n-1)/n*s/bandwidth
   "delta": ns,                          of a control message
   "partition_bytes": ..., "credit_bytes": ..., "policy": "fifo", "priority" or "bucketed",
   "synchronous": false, "bucket_bytes": [...],
   "mode": "exchange" or "server",       all-reduces; or gradients go to servers, and weights
                                         come back: s bytes take alpha + s/bandwidth each way
   "servers": 1}

What is missing is 0 or as in ExchangeOptions. Pieces are whole elements: of float32 if all
sizes are multiples of 4, else of one byte.
)";

void print_step(const std::string& path) {
  std::vector<std::string> ignored;
  const bench::StepInstance instance = bench::read_instance(path, &ignored);
  for (const std::string& name : ignored) {
    std::fprintf(stderr, "bench_comm_step: %s: \"%s\" is ignored: there is no such field\n",
                 path.c_str(), name.c_str());
  }
  for (const leat::Duration time : bench::run_step(instance)) {
    std::printf("%lld\n", static_cast<long long>(time.count()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (arguments.size() != 1 || arguments[0].starts_with("--")) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    print_step(std::string(arguments[0]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_comm_step: %s\n", error.what());
    return 1;
  }
  if (std::fflush(stdout) != 0) {
    std::perror("bench_comm_step: cannot write to the standard output");
    return 1;
  }
  return 0;
}
