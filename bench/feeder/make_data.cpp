// Writes data for benchmarks: `make_data --help`. What is written is told by
// bench/data/synthetic.h.

#include <getopt.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"

namespace {

using leat::feeder::DType;

constexpr const char* kUsage =
    "Usage: make_data FORMAT DIRECTORY [options]\n"
    "Writes data whose contents follow from a seed, and prints the files.\n"
    "\n"
    "  cifar10             data_batch_1.bin ..., in CIFAR-10's binary version\n"
    "  tokens              tokens_00000.bin ..., token shards of a language model\n"
    "  records             records_00000.bin ..., records of fixed size\n"
    "  webdataset          synthetic-000000.tar ..., JPEG images of one size and their labels\n"
    "\n"
    "  --size BYTES        of all files together, without their headers and rounded down to whole\n"
    "                      samples; k, M, G, T behind the number are 2^10, ... 2^40 (100M)\n"
    "  --shards N          files (cifar10: 5; else 4)\n"
    "  --samples N         webdataset, in place of --size (1000)\n"
    "  --width N           webdataset: of an image (500)\n"
    "  --height N          webdataset (375)\n"
    "  --classes N         webdataset: labels are below; 0: a label is a sample's number (1000)\n"
    "  --seed N            (0)\n"
    "  --token TYPE        tokens: uint16 or uint32 (uint16)\n"
    "  --header KIND       tokens: llm.c or none (llm.c)\n"
    "  --vocabulary N      tokens: they are below (50257)\n"
    "  --record BYTES      records: the size of one (4096)\n"
    "  --help\n";

struct Arguments {
  std::string format;
  std::filesystem::path directory;
  std::uint64_t size = std::uint64_t{100} << 20;
  std::size_t shards = 0;
  std::uint64_t seed = 0;
  DType token = DType::kUint16;
  bool header = true;
  std::uint32_t vocabulary = 50'257;
  std::uint64_t record = 4096;
  std::uint64_t samples = 1000;
  std::uint32_t width = 500;
  std::uint32_t height = 375;
  std::uint64_t classes = 1000;
  bool help = false;
};

[[noreturn]] void refuse(const std::string& option, std::string_view text,
                         const std::string& expected) {
  throw std::invalid_argument("--" + option + " " + std::string(text) + ": " + expected +
                              " is expected");
}

// `text` as a number from `least` to `most`; with a unit behind it if `units` are allowed.
std::uint64_t number(const std::string& option, std::string_view text, std::uint64_t least,
                     std::uint64_t most, bool units = false) {
  std::string_view digits = text;
  unsigned shift = 0;
  const std::string_view names = "kMGT";
  if (units && !digits.empty() && names.find(digits.back()) != std::string_view::npos) {
    shift = 10 * static_cast<unsigned>(names.find(digits.back()) + 1);
    digits.remove_suffix(1);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!is_whole || value > most >> shift || value << shift < least) {
    refuse(option, text,
           units ? "a number of bytes, like 4096 or 100M,"
                 : "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value << shift;
}

// Of an image, in pixels.
std::uint32_t extent(const std::string& option, std::string_view text) {
  return static_cast<std::uint32_t>(number(option, text, 1, 65'500));
}

// One of two words; whether it is the first.
bool is_first(const std::string& option, std::string_view text, const char* first,
              const char* second) {
  if (text != first && text != second) {
    refuse(option, text, std::string(first) + " or " + second);
  }
  return text == first;
}

Arguments parse(int argc, char** argv) {
  enum Which : int {
    kSize = 1,
    kShards,
    kSeed,
    kToken,
    kHeader,
    kVocabulary,
    kRecord,
    kSamples,
    kWidth,
    kHeight,
    kClasses,
    kHelp
  };
  const std::array<option, 13> known = {{{"size", required_argument, nullptr, kSize},
                                         {"shards", required_argument, nullptr, kShards},
                                         {"seed", required_argument, nullptr, kSeed},
                                         {"token", required_argument, nullptr, kToken},
                                         {"header", required_argument, nullptr, kHeader},
                                         {"vocabulary", required_argument, nullptr, kVocabulary},
                                         {"record", required_argument, nullptr, kRecord},
                                         {"samples", required_argument, nullptr, kSamples},
                                         {"width", required_argument, nullptr, kWidth},
                                         {"height", required_argument, nullptr, kHeight},
                                         {"classes", required_argument, nullptr, kClasses},
                                         {"help", no_argument, nullptr, kHelp},
                                         {}}};
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  Arguments found;
  for (;;) {
    switch (getopt_long(argc, argv, "", known.data(), nullptr)) {
      case kSize: found.size = number("size", optarg, 1, kMost, true); continue;
      case kShards: found.shards = number("shards", optarg, 1, 100'000); continue;
      case kSeed:
        found.seed = number("seed", optarg, 0, std::numeric_limits<std::uint64_t>::max());
        continue;
      case kToken:
        found.token =
            is_first("token", optarg, "uint16", "uint32") ? DType::kUint16 : DType::kUint32;
        continue;
      case kHeader: found.header = is_first("header", optarg, "llm.c", "none"); continue;
      case kVocabulary:
        found.vocabulary = static_cast<std::uint32_t>(
            number("vocabulary", optarg, 1, std::numeric_limits<std::uint32_t>::max()));
        continue;
      case kRecord: found.record = number("record", optarg, 1, 1 << 30, true); continue;
      case kSamples: found.samples = number("samples", optarg, 1, 1'000'000'000); continue;
      case kWidth: found.width = extent("width", optarg); continue;
      case kHeight: found.height = extent("height", optarg); continue;
      case kClasses: found.classes = number("classes", optarg, 0, kMost); continue;
      case kHelp: found.help = true; return found;
      case -1: break;
      default: throw std::invalid_argument("see make_data --help");  // getopt has told what it is
    }
    break;
  }
  if (argc - optind != 2) {
    throw std::invalid_argument("a format and a directory are expected; see make_data --help");
  }
  found.format = argv[optind];
  found.directory = argv[optind + 1];
  return found;
}

// How many samples of this size there are in all.
std::uint64_t samples(const Arguments& arguments, std::uint64_t bytes, std::size_t shards) {
  const std::uint64_t count = arguments.size / bytes;
  if (count >= shards) return count;
  throw std::invalid_argument("--size " + std::to_string(arguments.size) +
                              " is less than a sample of " + std::to_string(bytes) +
                              " bytes for each of " + std::to_string(shards) + " shards");
}

std::vector<std::filesystem::path> write(const Arguments& arguments) {
  const auto shards = [&](std::size_t usual) {
    return arguments.shards == 0 ? usual : arguments.shards;
  };
  if (arguments.format == "cifar10") {
    return leat::feeder::write_cifar10(arguments.directory,
                                       {.samples = samples(arguments, 3073, shards(5)),
                                        .shards = shards(5),
                                        .seed = arguments.seed});
  }
  if (arguments.format == "tokens") {
    return leat::feeder::write_tokens(
        arguments.directory,
        {.tokens = samples(arguments, leat::feeder::size_of(arguments.token), shards(4)),
         .shards = shards(4),
         .seed = arguments.seed,
         .token = arguments.token,
         .header = arguments.header,
         .vocabulary = arguments.vocabulary});
  }
  if (arguments.format == "records") {
    return leat::feeder::write_records(arguments.directory,
                                       {.samples = samples(arguments, arguments.record, shards(4)),
                                        .shards = shards(4),
                                        .seed = arguments.seed,
                                        .record_bytes = arguments.record});
  }
  if (arguments.format == "webdataset") {
    const std::uint64_t files = shards(4);
    std::filesystem::create_directories(arguments.directory);
    return leat::feeder::write_synthetic_web(
        arguments.directory, {.samples = arguments.samples,
                              .samples_per_shard = (arguments.samples + files - 1) / files,
                              .min_width = arguments.width,
                              .max_width = arguments.width,
                              .min_height = arguments.height,
                              .max_height = arguments.height,
                              .classes = arguments.classes,
                              .seed = arguments.seed});
  }
  throw std::invalid_argument("there is no format " + arguments.format +
                              "; there are cifar10, tokens, records and webdataset");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    for (const std::filesystem::path& file : write(arguments)) std::puts(file.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_data: %s\n", error.what());
    return 2;
  }
}
