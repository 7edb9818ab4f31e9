#include "examples/03_mnist/options.h"

#include <getopt.h>

#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace mnist {
namespace {

template <class Number>
Number number(const char* option, std::string_view text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    throw std::invalid_argument(std::string("--") + option + " " + std::string(text) +
                                ": a number of at least " + std::to_string(least) + " is expected");
  }
  return value;
}

}  // namespace

const char* usage() noexcept {
  return "Trains a small network on handwritten digits.\n"
         "  --device NAME         auto, cuda:N or host:N (auto: the first CUDA device, else the "
         "host)\n"
         "  --data DIRECTORY      with the four MNIST files, gzip-compressed or not\n"
         "  --epochs N            passes over the training set (3)\n"
         "  --batch-size N        samples in a step (64)\n"
         "  --prefetch-depth N    2 overlaps copies and compute, 1 does not (2)\n"
         "  --workers N           fibers that read (1)\n"
         "  --seed N              of the initial weights and the order (1)\n"
         "  --learning-rate X     of the first epoch; 0.3 times that of the one before later "
         "(0.04)\n"
         "  --min-accuracy P      fail if the test accuracy is below P percent\n";
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
  for (int which = 0; (which = getopt_long(argc, argv, "h", known.data(), nullptr)) != -1;) {
    switch (which) {
      case kDevice: options.device = optarg; break;
      case kData: options.data = optarg; break;
      case kEpochs: options.epochs = number<std::uint64_t>("epochs", optarg, 1); break;
      case kBatch: options.batch_size = number<std::size_t>("batch-size", optarg, 1); break;
      case kDepth: options.prefetch_depth = number<std::size_t>("prefetch-depth", optarg, 1); break;
      case kWorkers: options.workers = number<std::size_t>("workers", optarg, 1); break;
      case kSeed: options.seed = number<std::uint64_t>("seed", optarg, 0); break;
      case kRate: options.learning_rate = number<float>("learning-rate", optarg, 0.0F); break;
      case kMin: options.min_accuracy = number<float>("min-accuracy", optarg, 0.0F); break;
      case 'h':
      case kHelp: options.help = true; break;
      default:
        throw std::invalid_argument("cannot use \"" + std::string(argv[optind - 1]) +
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
