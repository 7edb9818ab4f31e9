#include "examples/12_pipeline/options.h"

#include <getopt.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "examples/03_mnist/number_option.h"
#include "leat/pipeline/check.h"
#include "leat/pipeline/text.h"

namespace pipelined {
namespace {

using leat::pipeline::Kind;
using mnist::number;
using mnist::whole_number;

enum Which : int {
  kKind = 1,
  kSchedule,
  kRanks,
  kStages,
  kMicrobatches,
  kCapacity,
  kReplicas,
  kTransport,
  kDevice,
  kData,
  kBatch,
  kSteps,
  kSeed,
  kRate,
  kMin,
  kHelp
};

constexpr std::array<option, 17> kKnown = {
    {{"kind", required_argument, nullptr, kKind},
     {"schedule", required_argument, nullptr, kSchedule},
     {"ranks", required_argument, nullptr, kRanks},
     {"stages-per-rank", required_argument, nullptr, kStages},
     {"microbatches", required_argument, nullptr, kMicrobatches},
     {"capacity", required_argument, nullptr, kCapacity},
     {"replicas", required_argument, nullptr, kReplicas},
     {"transport", required_argument, nullptr, kTransport},
     {"device", required_argument, nullptr, kDevice},
     {"data", required_argument, nullptr, kData},
     {"batch-size", required_argument, nullptr, kBatch},
     {"steps", required_argument, nullptr, kSteps},
     {"seed", required_argument, nullptr, kSeed},
     {"learning-rate", required_argument, nullptr, kRate},
     {"min-accuracy", required_argument, nullptr, kMin},
     {"help", no_argument, nullptr, kHelp},
     {nullptr, 0, nullptr, 0}}};

Kind kind_of(const std::string& text) {
  if (const auto kind = leat::pipeline::kind_named(text)) return *kind;
  std::string all;
  for (const Kind kind : leat::pipeline::kinds()) {
    all += (all.empty() ? "" : ", ") + std::string(name(kind));
  }
  throw std::invalid_argument("--kind " + text + ": one of " + all + " is expected");
}

const char* one_of(const std::string& argument, const char* value, std::string_view a,
                   std::string_view b, std::string_view c = {}) {
  if (value == a || value == b || (value == c && !c.empty())) return value;
  throw std::invalid_argument(argument + ' ' + value + ": one of " + std::string(a) + ", " +
                              std::string(b) + (c.empty() ? "" : ", " + std::string(c)) +
                              " is expected");
}

void set(Options& options, int which, const char* value) {
  switch (which) {
    case kKind: options.kind = kind_of(value); break;
    case kSchedule: options.schedule = value; break;
    case kRanks: options.shape.ranks = whole_number("--ranks", value, 1, 8); break;
    case kStages:
      options.shape.stages_per_rank = whole_number("--stages-per-rank", value, 1, 8);
      break;
    case kMicrobatches:
      options.shape.microbatches = whole_number("--microbatches", value, 1, 4096);
      break;
    case kCapacity: options.capacity = whole_number("--capacity", value, 0, 4096); break;
    case kReplicas: options.replicas = whole_number<std::size_t>("--replicas", value, 1, 64); break;
    case kTransport:
      options.mpi = one_of("--transport", value, "local", "mpi") == std::string_view("mpi");
      break;
    case kDevice: options.device = one_of("--device", value, "auto", "host", "cuda"); break;
    case kData: options.data = value; break;
    case kBatch:
      options.batch_size = whole_number<std::size_t>("--batch-size", value, 1, 60'000);
      break;
    case kSteps: options.steps = whole_number<std::uint64_t>("--steps", value, 0); break;
    case kSeed: options.seed = whole_number<std::uint64_t>("--seed", value, 0); break;
    case kRate:
      options.learning_rate =
          number("--learning-rate", value, 0.0F, std::numeric_limits<float>::max(),
                 "a finite number of at least 0");
      break;
    case kMin:
      options.min_accuracy =
          number("--min-accuracy", value, 0.0F, 100.0F, "a number from 0 to 100");
      break;
    default: options.help = true; break;
  }
}

}  // namespace

const char* usage() noexcept {
  return "Trains a perceptron of eight layers on handwritten digits, cut into pipeline stages.\n"
         "  --kind NAME           the schedule: gpipe, one_f_one_b, zbv, ... (one_f_one_b)\n"
         "  --schedule FILE       or a file, as leat-schedule prints it\n"
         "  --ranks N             devices of a pipeline; with mpi mpirun says how many (4)\n"
         "  --stages-per-rank N   at most 8 stages in all (the kind's least)\n"
         "  --microbatches N      (8)\n"
         "  --capacity N          values under way between two stages (least for full speed)\n"
         "  --replicas N          data-parallel pipelines (1)\n"
         "  --transport NAME      local: all ranks in this process; mpi: those of mpirun (local)\n"
         "  --device NAME         auto, host or cuda (auto: cuda, if there is a GPU for each "
         "rank)\n"
         "  --data DIRECTORY      with the four MNIST files, gzip-compressed or not\n"
         "  --batch-size N        samples in a step, of all replicas; a multiple of them (64)\n"
         "  --steps N             0: a pass over the training set (300)\n"
         "  --seed N              of the initial weights and the order (1)\n"
         "  --learning-rate X     (0.05)\n"
         "  --min-accuracy P      fail if the test accuracy is below P percent, 0 to 100 (0)\n";
}

Options parse(int argc, char** argv) {
  Options options;
  opterr = 0;  // errors are thrown, in one line
  optind = 1;
  // "+": the arguments stay in their order, so that argv[at] is the one that is looked at. ":": a
  // value that is missing is told from an unknown argument.
  int at = optind;
  for (int which = 0; (which = getopt_long(argc, argv, "+:h", kKnown.data(), nullptr)) != -1;
       at = optind) {
    if (which == ':' || which == '?') {
      throw std::invalid_argument((which == ':' ? std::string(argv[at]) + ": its value is missing"
                                                : "cannot use \"" + std::string(argv[at]) + '"') +
                                  "; --help lists the arguments");
    }
    set(options, which, optarg);
  }
  if (optind < argc) {
    throw std::invalid_argument("unexpected \"" + std::string(argv[optind]) +
                                "\"; --help lists the arguments");
  }
  return options;
}

leat::pipeline::Schedule schedule_of(const Options& options) {
  if (options.schedule.empty()) return make(options.kind, options.shape);
  leat::pipeline::Schedule schedule = leat::pipeline::read_schedule(options.schedule);
  // The executor finds the same, without the file's name.
  leat::pipeline::CheckResult checked = leat::pipeline::check(schedule);
  if (!checked.findings.empty() && !checked.capacities.to_run.has_value()) {
    throw leat::pipeline::ScheduleError(std::move(checked.findings), options.schedule);
  }
  return schedule;
}

}  // namespace pipelined
