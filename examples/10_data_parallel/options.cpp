#include "examples/10_data_parallel/options.h"

#include <getopt.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "examples/03_mnist/number_option.h"

namespace data_parallel {
namespace {

using mnist::number;
using mnist::whole_number;

// What an IDX file can hold, which counts its images in 32 bits.
constexpr std::size_t kMostImages = std::numeric_limits<std::uint32_t>::max();

enum Which : int {
  kTransport = 1,
  kRanks,
  kServers,
  kAsynchronous,
  kStaleness,
  kDevice,
  kData,
  kBatch,
  kEpochs,
  kSteps,
  kPolicy,
  kPartition,
  kCredit,
  kSynchronous,
  kDeadline,
  kRecorder,
  kSeed,
  kRate,
  kMin,
  kHelp
};

constexpr std::array<option, 21> kKnown = {
    {{"transport", required_argument, nullptr, kTransport},
     {"ranks", required_argument, nullptr, kRanks},
     {"servers", required_argument, nullptr, kServers},
     {"asynchronous", no_argument, nullptr, kAsynchronous},
     {"staleness", required_argument, nullptr, kStaleness},
     {"device", required_argument, nullptr, kDevice},
     {"data", required_argument, nullptr, kData},
     {"global-batch", required_argument, nullptr, kBatch},
     {"epochs", required_argument, nullptr, kEpochs},
     {"steps", required_argument, nullptr, kSteps},
     {"policy", required_argument, nullptr, kPolicy},
     {"partition-bytes", required_argument, nullptr, kPartition},
     {"credit-bytes", required_argument, nullptr, kCredit},
     {"synchronous", no_argument, nullptr, kSynchronous},
     {"deadline", required_argument, nullptr, kDeadline},
     {"recorder", required_argument, nullptr, kRecorder},
     {"seed", required_argument, nullptr, kSeed},
     {"learning-rate", required_argument, nullptr, kRate},
     {"min-accuracy", required_argument, nullptr, kMin},
     {"help", no_argument, nullptr, kHelp},
     {nullptr, 0, nullptr, 0}}};

std::string one_of(const std::string& argument, const std::string& value,
                   std::initializer_list<std::string_view> known) {
  std::string all;
  for (const std::string_view one : known) {
    if (value == one) return value;
    all += (all.empty() ? "" : ", ") + std::string(one);
  }
  throw std::invalid_argument(argument + " " + value + ": one of " + all + " is expected");
}

leat::comm::Policy policy_of(const std::string& name) {
  one_of("--policy", name, {"fifo", "priority", "bucketed"});
  if (name == "fifo") return leat::comm::Policy::kFifo;
  return name == "priority" ? leat::comm::Policy::kPriority : leat::comm::Policy::kBucketed;
}

void set(Options& options, int which, const char* value) {
  switch (which) {
    case kTransport:
      options.transport = one_of("--transport", value, {"local", "mpi", "nccl", "nccl-mpi"});
      break;
    case kRanks: options.ranks = whole_number("--ranks", value, 1, 64); break;
    case kServers: options.servers = whole_number("--servers", value, 0, 63); break;
    case kAsynchronous: options.asynchronous = true; break;
    case kStaleness: options.staleness = whole_number("--staleness", value, 0); break;
    case kDevice: options.device = one_of("--device", value, {"auto", "host", "cuda"}); break;
    case kData: options.data = value; break;
    case kBatch:
      options.global_batch = whole_number<std::size_t>("--global-batch", value, 1, kMostImages);
      break;
    case kEpochs: options.epochs = whole_number<std::uint64_t>("--epochs", value, 1); break;
    case kSteps: options.steps = whole_number<std::uint64_t>("--steps", value, 0); break;
    case kPolicy: options.exchange.policy = policy_of(value); break;
    case kPartition:
      options.exchange.partition_bytes = whole_number<std::size_t>("--partition-bytes", value, 1);
      break;
    case kCredit:
      options.exchange.credit_bytes = whole_number<std::size_t>("--credit-bytes", value, 1);
      break;
    case kSynchronous: options.exchange.synchronous = true; break;
    case kDeadline:
      options.open.deadline =
          std::chrono::milliseconds(whole_number("--deadline", value, 1, 1'000'000'000));
      break;
    case kRecorder: options.open.recorder_directory = value; break;
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
  return "Trains a small network on handwritten digits, on several ranks at once.\n"
         "  --transport NAME      local: all ranks in this process; mpi: those of mpirun (local);\n"
         "                        nccl, nccl-mpi: likewise, a GPU for each, which NCCL connects\n"
         "  --ranks N             local and nccl: how many, at most 64 (4)\n"
         "  --servers N           the last N ranks hold the parameters, and do not train; 0: all\n"
         "                        train, and exchange gradients (0)\n"
         "  --asynchronous        servers only: they take each gradient when it comes\n"
         "  --staleness S         asynchronous only: no worker is more than S steps ahead (no "
         "bound)\n"
         "  --device NAME         auto, host or cuda; rank r has cuda:r or host:r (auto: cuda, if\n"
         "                        there is one for each rank of this machine; cuda: else in "
         "turns)\n"
         "  --data DIRECTORY      with the four MNIST files, gzip-compressed or not\n"
         "  --global-batch N      samples in a step, of all ranks together (256)\n"
         "  --epochs N            passes over the training set (1)\n"
         "  --steps N             stop after so many steps; 0: whole epochs (0)\n"
         "  --policy NAME         fifo, priority or bucketed (priority)\n"
         "  --partition-bytes N   of a piece of a gradient (4 MiB)\n"
         "  --credit-bytes N      that may be under way at a time (16 MiB)\n"
         "  --synchronous         wait for all gradients of a step before the next forward\n"
         "  --deadline MS         how late a rank may be (5 minutes)\n"
         "  --recorder DIRECTORY  for what each rank did last, if communication fails\n"
         "  --seed N              of the initial weights and the order (1)\n"
         "  --learning-rate X     (0.04)\n"
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
    if (which == ':') {
      throw std::invalid_argument(std::string(argv[at]) +
                                  ": its value is missing; --help lists the arguments");
    }
    if (which == '?') {
      throw std::invalid_argument("cannot use \"" + std::string(argv[at]) +
                                  "\"; --help lists the arguments");
    }
    set(options, which, optarg);
  }
  if (optind < argc) {
    throw std::invalid_argument("unexpected \"" + std::string(argv[optind]) +
                                "\"; --help lists the arguments");
  }
  return options;
}

}  // namespace data_parallel
