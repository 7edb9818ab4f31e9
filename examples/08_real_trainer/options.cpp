#include "examples/08_real_trainer/options.h"

#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

#include "examples/03_mnist/number_option.h"

namespace trainer {

using mnist::whole_number;

const char* usage() noexcept {
  return "Trains on handwritten digits, in one process or several.\n"
         "  --device NAME           host or cuda: each process has one of its own; host:N or "
         "cuda:N: "
         "all have that one (host)\n"
         "  --data DIRECTORY        with the four MNIST files\n"
         "  --epochs N              passes over the training set (2)\n"
         "  --batch-size N          samples in a step, over all processes (100)\n"
         "  --seed N                of the initial weights and the order (1)\n"
         "  --processes N           that share each step, at most 64 (1)\n"
         "  --checkpoint FILE       is written every K steps, at the end, and at Ctrl-C\n"
         "  --checkpoint-every K    (500)\n"
         "  --resume FILE           goes on from a checkpoint, with any number of processes\n"
         "  --stop-after K          steps, counted from the run's first\n"
         "  --log FILE              gets a line for each step: step,loss\n";
}

Options parse(int argc, char** argv) {
  Options options;
  using Text = const std::string&;
  const std::map<std::string, std::function<void(Text, Text)>, std::less<>> known = {
      {"--device", [&](Text, Text value) { options.device = value; }},
      {"--data", [&](Text, Text value) { options.data = value; }},
      {"--checkpoint", [&](Text, Text value) { options.checkpoint = value; }},
      {"--resume", [&](Text, Text value) { options.resume = value; }},
      {"--log", [&](Text, Text value) { options.log = value; }},
      {"--epochs",
       [&](Text name, Text value) {
         options.epochs = whole_number<std::uint64_t>(name, value, 1);
       }},
      {"--batch-size",
       [&](Text name, Text value) {
         options.batch_size = whole_number<std::size_t>(name, value, 1, 60'000);
       }},
      {"--seed",
       [&](Text name, Text value) { options.seed = whole_number<std::uint64_t>(name, value, 0); }},
      {"--processes",
       [&](Text name, Text value) {
         options.processes = whole_number<std::size_t>(name, value, 1, 64);
       }},
      {"--checkpoint-every",
       [&](Text name, Text value) {
         options.checkpoint_every = whole_number<std::uint64_t>(name, value, 1);
       }},
      {"--stop-after",
       [&](Text name, Text value) {
         options.stop_after = whole_number<std::uint64_t>(name, value, 1);
       }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    const auto option = known.find(name);
    if (option == known.end()) {
      throw std::invalid_argument("cannot use \"" + name + "\"; --help lists the arguments");
    }
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (value.empty() || value.starts_with("--")) {
      throw std::invalid_argument(name + ": its value is missing; --help lists the arguments");
    }
    option->second(name, argv[++i]);
  }
  return options;
}

}  // namespace trainer
