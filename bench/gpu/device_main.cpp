#include "bench/gpu/device_main.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

#include "leat/csp/error.h"

namespace bench {
namespace {

bool g_failed = false;  // of the main thread, which runs the benchmarks

struct Arguments {
  std::string device = "auto";
  Options options;
  std::vector<char*> rest;  // Google Benchmark's
};

// Takes ours out. Ends the program where one lacks its value.
Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--quick") {
      arguments.options.quick = true;
    } else if (word == "--device" && i + 1 < argc) {
      arguments.device = argv[++i];
    } else if (word.starts_with("--device=")) {
      arguments.device = word.substr(word.find('=') + 1);
    } else if (word == "--device") {
      std::fprintf(stderr, "%s: --device asks for a name: auto, cuda:N or host:N\n", argv[0]);
      std::exit(1);
    } else {
      if (word == "--help") std::puts("[--device auto|cuda:N|host:N] [--quick], and");
      arguments.rest.push_back(argv[i]);
    }
  }
  return arguments;
}

void describe(const leat::gpu::Device& device) {
  benchmark::AddCustomContext("device", device.name());
  benchmark::AddCustomContext("description", device.info().description);
  benchmark::AddCustomContext("numa_node", std::to_string(device.info().numa_node));
  benchmark::AddCustomContext("copy_engines", std::to_string(device.info().copy_engines));
  benchmark::AddCustomContext("cuda", leat::gpu::list().cuda_status);
}

}  // namespace

int run_on_device(int argc, char** argv,
                  void (*add)(const leat::gpu::Device& device, const Options& options)) {
  Arguments arguments = parse(argc, argv);
  try {
    int count = static_cast<int>(arguments.rest.size());
    arguments.rest.push_back(nullptr);
    benchmark::Initialize(&count, arguments.rest.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.rest.data())) return 1;
    const leat::gpu::Device device = leat::gpu::open(arguments.device);
    describe(device);
    add(device, arguments.options);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::ClearRegisteredBenchmarks();  // they hold the device
    benchmark::Shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return g_failed ? 1 : 0;
}

void fail(benchmark::State& state, const std::string& why) {
  g_failed = true;
  state.SkipWithError(why.c_str());
}

int number_of(const leat::gpu::Device& device) {
  return std::atoi(device.name().c_str() + device.name().find(':') + 1);
}

double quantile(std::span<double> samples, double share) {
  std::ranges::sort(samples);
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(std::llround(share * last))];
}

void count_allocations(benchmark::State& state, const leat::gpu::Device& device,
                       const Allocations& before, double operations) {
  const Allocations after;
  const auto report = [&](const char* name, std::uint64_t from, std::uint64_t to) {
    state.counters[name] = static_cast<double>(to - from) / operations;
  };
  report("heap_per_op", before.heap, after.heap);
  // On the host device the heap is all there is. Without a single call, although there are streams,
  // the linker has not sent them here (a shared libleat_gpu): then nothing is known.
  if (!device.capabilities().cuda_kernels || after.cuda.sum() == 0) return;
  report("device_per_op", before.cuda.device, after.cuda.device);
  report("pinned_per_op", before.cuda.pinned, after.cuda.pinned);
  report("events_per_op", before.cuda.events, after.cuda.events);
}

}  // namespace bench
