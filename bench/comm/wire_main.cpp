// The model of wire.h on one transport, in real time: `bench_comm_wire --help`.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/comm/wire.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr const char* kUsage = R"(Usage: bench_comm_wire local:N | mpi [STEPS]

Measures the wire between the ranks: alpha and bandwidth of all-reduces and of sends, and the time
of a notice. Then STEPS (7) steps of a model of 64 MB in 20 tensors, whose computing is a wait,
without overlap, under each policy, and with servers. Rank 0 prints all as JSON, with what the
simulator of bench_comm_step says for these figures. Of local, the link is modelled: 1 Gb/s, alpha
200 us, delta 100 us; what the simulator gets is that.
)";

constexpr int kRepetitions = 7;
constexpr leat::comm::LinkModel kLocalLink{
    .bandwidth = 125e6, .alpha = 200us, .delta = 100us, .enabled = true};

// What rank 0 has measured.
struct Measured {
  std::vector<bench::WireSample> all_reduces, sends;
  leat::Duration notice = leat::Duration::zero();
  std::vector<std::vector<leat::Duration>> steps;  // of each case
};

Measured measure(const leat::comm::Communicator& ranks, int steps) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = 256 << 10; size <= 16 << 20; size *= 2) sizes.push_back(size);
  Measured found{.all_reduces = bench::measure_all_reduces(ranks, sizes, kRepetitions),
                 .sends = bench::measure_sends(ranks, sizes, kRepetitions),
                 .notice = bench::measure_notice(ranks),
                 .steps = {}};
  for (const bench::WireCase& one : bench::wire_cases(ranks.size())) {
    found.steps.push_back(bench::run_steps(ranks, one.instance, steps));
    ranks.barrier().await();
  }
  return found;
}

Json of_fit(const bench::WireFit& fit, const std::vector<bench::WireSample>& samples) {
  Json told = {{"alpha_ns", fit.alpha}, {"bandwidth", fit.bandwidth}, {"worst", fit.worst}};
  for (const auto& one : samples) told["samples"].push_back({one.bytes, one.nanoseconds});
  return told;
}

void print(const Measured& found, int ranks, bool is_modelled) {
  const bench::WireFit modelled{.alpha = static_cast<double>(kLocalLink.alpha.count()),
                                .bandwidth = kLocalLink.bandwidth};
  const bench::WireFit collectives = bench::fit_wire(found.all_reduces);
  const bench::WireFit sends = bench::fit_wire(found.sends);
  const leat::Duration delta = is_modelled ? kLocalLink.delta : found.notice;
  Json told = {{"all_reduce", of_fit(collectives, found.all_reduces)},
               {"send", of_fit(sends, found.sends)},
               {"notice_ns", delta.count()}};
  const std::vector<bench::WireCase> cases = bench::wire_cases(ranks);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const bench::WireFit& fit = cases[i].instance.servers > 0 ? sends : collectives;
    Json row = {{"name", cases[i].name},
                {"formula_ns",
                 bench::expected_step(cases[i], is_modelled ? modelled : fit, delta).count()}};
    for (const leat::Duration time : found.steps[i]) row["steps_ns"].push_back(time.count());
    told["rows"].push_back(row);
  }
  std::puts(told.dump(1).c_str());
}

// Measures on the ranks of this process. Rank 0 prints.
void run(std::string_view transport, int steps) {
  const bool is_modelled = transport != "mpi";
  Measured found;
  bool is_first = false;
  int size = 0;
  leat::run(
      [&] {
        leat::comm::OpenOptions options;
        if (is_modelled) options.link = kLocalLink;
        const std::vector<leat::comm::Communicator> here = leat::comm::open(transport, options);
        is_first = here.front().rank() == 0;
        size = here.front().size();
        if (size < 2) throw std::invalid_argument("a wire has two ranks or more");
        leat::TaskGroup group;
        for (const leat::comm::Communicator& ranks : here) {
          group.go([&] {
            Measured mine = measure(ranks, steps);
            if (ranks.rank() == 0) found = std::move(mine);
          });
        }
        group.wait();
      },
      {.workers = 1});
  if (is_first) print(found, size, is_modelled);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  int steps = 7;
  if (arguments.size() == 2) {
    const std::string_view text = arguments[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
    if (error != std::errc() || end != text.data() + text.size() || steps > 1'000) steps = 0;
  }
  if (arguments.empty() || arguments.size() > 2 || arguments[0].starts_with("-") || steps < 1) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    run(arguments[0], steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_comm_wire: %s\n", error.what());
    return 1;
  }
  if (std::fflush(stdout) != 0) {
    std::perror("bench_comm_wire: cannot write to the standard output");
    return 1;
  }
  return 0;
}
