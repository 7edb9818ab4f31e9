#include "examples/03_mnist/options.h"

#include <getopt.h>

#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "examples/03_mnist/number_option.h"

namespace mnist {
namespace {

// What an IDX file can hold, which counts its images in 32 bits.
constexpr std::size_t kMostImages = std::numeric_limits<std::uint32_t>::max();
// More slots or readers than this are a slip of the finger.
constexpr std::size_t kMostSlots = 4096;

}  // namespace

const char* usage() noexcept {
  return "Trains a small network on handwritten digits.\n"
         "  --device NAME         auto, cuda:N or host:N (auto: the first CUDA device, else the "
         "host)\n"
         "  --data DIRECTORY      with the four MNIST files, gzip-compressed or not\n"
         "  --epochs N            passes over the training set (3)\n"
         "  --batch-size N        samples in a step, at most the training set (64)\n"
         "  --prefetch-depth N    2 overlaps copies and compute, 1 does not; at most 4096 (2)\n"
         "  --workers N           fibers that read, at most 4096 (1)\n"
         "  --seed N              of the initial weights and the order (1)\n"
         "  --learning-rate X     of the first epoch; 0.3 times that of the one before later "
         "(0.04)\n"
         "  --min-accuracy P      fail if the test accuracy is below P percent, 0 to 100 (0)\n";
}

Options parse(int argc, char** argv) {
  enum Which : int {
    kDevice = 1,
    kData,
    kEpochs,
    kBatch,
    kDepth,
    kWorkers,
    kSeed,
    kRate,
    kMin,
    kHelp
  };
  const std::array<option, 11> known = {{{"device", required_argument, nullptr, kDevice},
                                         {"data", required_argument, nullptr, kData},
                                         {"epochs", required_argument, nullptr, kEpochs},
                                         {"batch-size", required_argument, nullptr, kBatch},
                                         {"prefetch-depth", required_argument, nullptr, kDepth},
                                         {"workers", required_argument, nullptr, kWorkers},
                                         {"seed", required_argument, nullptr, kSeed},
                                         {"learning-rate", required_argument, nullptr, kRate},
                                         {"min-accuracy", required_argument, nullptr, kMin},
                                         {"help", no_argument, nullptr, kHelp},
                                         {nullptr, 0, nullptr, 0}}};
  Options options;
  opterr = 0;  // errors are thrown, in one line
  optind = 1;
  // "+": the arguments stay in their order, so that argv[at] is the one that is looked at. ":": a
  // value that is missing is told from an unknown argument.
  int at = optind;
  for (int which = 0; (which = getopt_long(argc, argv, "+:h", known.data(), nullptr)) != -1;
       at = optind) {
    if (optind - at == 2 && std::string_view(argv[at + 1]).starts_with("--")) {
      throw std::invalid_argument(std::string(argv[at]) + ": its value is missing, for \"" +
                                  argv[at + 1] + "\" is none; --help lists the arguments");
    }
    switch (which) {
      case kDevice: options.device = optarg; break;
      case kData: options.data = optarg; break;
      case kEpochs: options.epochs = whole_number<std::uint64_t>("--epochs", optarg, 1); break;
      case kBatch:
        options.batch_size = whole_number<std::size_t>("--batch-size", optarg, 1, kMostImages);
        break;
      case kDepth:
        options.prefetch_depth =
            whole_number<std::size_t>("--prefetch-depth", optarg, 1, kMostSlots);
        break;
      case kWorkers:
        options.workers = whole_number<std::size_t>("--workers", optarg, 1, kMostSlots);
        break;
      case kSeed: options.seed = whole_number<std::uint64_t>("--seed", optarg, 0); break;
      case kRate:
        options.learning_rate =
            number("--learning-rate", optarg, 0.0F, std::numeric_limits<float>::max(),
                   "a finite number of at least 0");
        break;
      case kMin:
        options.min_accuracy =
            number("--min-accuracy", optarg, 0.0F, 100.0F, "a number from 0 to 100");
        break;
      case 'h':
      case kHelp: options.help = true; break;
      case ':':
        throw std::invalid_argument(std::string(argv[at]) +
                                    ": its value is missing; --help lists the arguments");
      default:
        throw std::invalid_argument("cannot use \"" + std::string(argv[at]) +
                                    "\"; --help lists the arguments");
    }
  }
  if (optind < argc) {
    throw std::invalid_argument("unexpected \"" + std::string(argv[optind]) +
                                "\"; --help lists the arguments");
  }
  return options;
}

}  // namespace mnist
