// Usage: mpirun -np 4 ... pipeline_ranks <how> <rank> <folder>
//
// This process is one rank of a pipeline.
//   trains            every kind computes what one device computes, in steps and evaluations
//   killed, throws    steps without end, until rank <rank> is killed in a forward, or its stage
//                     throws; the others then must have a PipelineError
// Each rank writes what became of it to <folder>/outcome-<r>: "ok" and the error, or what is wrong.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/kinds.h"
#include "tests/pipeline/executor/support/model.h"

namespace {

using namespace std::chrono_literals;
using leat::comm::Communicator;
using leat::pipeline::Executor;
using leat::pipeline::Kind;
using leat::pipeline::Microbatch;
using leat::pipeline::Op;
using leat::pipeline::PipelineError;
using leat::pipeline::Schedule;
using leat::pipeline::support::gradients_of;
using leat::pipeline::support::Model;

constexpr auto kDeadline = 800ms;
constexpr std::uint64_t kSamples = 21;

const leat::pipeline::CostModel kNoTime = {
    .stages = {{.forward = 0, .backward_input = 0, .backward_weight = 0}}};

std::string train(const Communicator& me) {
  for (const Kind kind : leat::pipeline::kinds()) {
    const Schedule schedule = make(kind, {.ranks = me.size(), .microbatches = 8});
    Model model(schedule, kNoTime);
    const auto rank = static_cast<std::size_t>(me.rank());
    Executor executor(schedule, model.part(rank), me, {.most_samples = kSamples});
    executor.evaluate(8);
    for (int i = 0; i < 5; ++i) executor.step(kSamples);
    executor.evaluate(kSamples);
    const auto expected = gradients_of(schedule.stages, 8, kSamples, kSamples);
    const std::vector<int> ranks = ranks_of_stages(schedule);
    for (std::size_t s = 0; s < expected.size(); ++s) {
      if (ranks[s] == me.rank() && model.stages[s]->sum != 5 * expected[s]) {
        return std::string(name(kind)) + ": stage " + std::to_string(s) + " has another gradient";
      }
    }
  }
  return "ok";
}

std::string step_on(const std::string& how, int lost, const Communicator& me) {
  const Schedule schedule = make(Kind::kOneFOneB, {.ranks = me.size(), .microbatches = 8});
  Model model(schedule, kNoTime);
  int step = 0;
  const auto stage = static_cast<std::size_t>(me.rank());  // 1F1B has one a rank
  if (me.rank() == lost) {
    model.stages[stage]->hook = [&](Op called, const Microbatch& m) {
      if (step != 10 || called != Op::kForward || m.index != 5) return;
      if (how == "killed") std::raise(SIGKILL);
      throw std::runtime_error("no more");
    };
  }
  Executor executor(schedule, model.part(stage), me, {.most_samples = kSamples});
  for (;; ++step) {
    const auto began = std::chrono::steady_clock::now();
    try {
      executor.step(kSamples);
    } catch (const PipelineError& error) {
      const std::string text = error.what();
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      if (seconds > std::chrono::duration<double>(kDeadline + 1s).count()) {
        return "after " + std::to_string(seconds) + " s: " + text;
      }
      if (error.rank() != stage) return "wrong rank: " + text;
      if (how == "throws" && text.find("no more") == std::string::npos) return "why? " + text;
      try {
        std::rethrow_if_nested(error);
      } catch (const leat::comm::CommError& cause) {
        return (cause.peer() == lost ? "ok " : "wrong peer: ") + text;
      } catch (const std::runtime_error& cause) {
        if (me.rank() != lost) return "wrong cause: " + text;
        return "ok " + text;
      }
      return "no cause: " + text;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string how = argv[1];
  const std::filesystem::path folder = argv[3];
  leat::comm::OpenOptions options;
  if (how == "killed") options.deadline = kDeadline;
  std::string outcome;
  int rank = 0;
  {
    const Communicator me = std::move(leat::comm::open("mpi", options).front());
    rank = me.rank();
    outcome = how == "trains" ? train(me) : step_on(how, std::atoi(argv[2]), me);
    const std::filesystem::path file = folder / ("outcome-" + std::to_string(rank));
    std::ofstream(file.string() + ".new") << outcome << '\n';
    std::filesystem::rename(file.string() + ".new", file);
  }
  return outcome.starts_with("ok") ? 0 : 1;
}
