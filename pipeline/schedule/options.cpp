#include "leat/pipeline/schedule/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using leat::pipeline::Kind;

// As CLI::Range, but refuses NaN, too.
template <class T>
CLI::Validator within(T least, T most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    std::ostringstream problem;
    problem << text << " is not in the range from " << least << " to " << most;
    return problem.str();
  };
  return {check, ""};
}

// Declares the commands and their options, and converts the values to a CommandLine.
class Parser {
 public:
  Parser() {
    app_.name("leat-schedule");
    app_.get_formatter()->column_width(30);
    app_.set_version_flag("--version", std::string("leat-schedule ") + LEAT_VERSION);
    app_.require_subcommand(1);
    app_.footer(
        "leat-schedule COMMAND --help has the options of a command. A FILE is CSV as of\n"
        "torch.distributed.pipelining, or a grid; - is the standard input.\n"
        "\n"
        "Exit status: 0; 1 if a check failed or nothing fits; 2 for wrong arguments; 3 if a file\n"
        "cannot be read, is no schedule or no model, or cannot be written.");
    for (const auto& [name, command, about] : kCommands) {
      declare(*app_.add_subcommand(name, about), command);
    }
  }

  // Throws CLI::ParseError.
  CommandLine parse(int argc, char** argv) {
    const auto is_command = [&](const Declared& one) { return std::string(one.name) == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && std::ranges::none_of(kCommands, is_command)) {
      throw CLI::ValidationError(std::string("there is no command ") + argv[1] + "; see --help");
    }
    app_.parse(argc, argv);
    Options& options = line_.options;
    options.wants_svg = !line_.svg.empty();
    options.wants_trace = !line_.trace.empty();
    const bool has_file = !options.file.empty();
    const auto refuse_if = [](bool is_wrong, const char* why) {
      if (is_wrong) throw CLI::ValidationError(why);
    };
    const bool compares = is_comparison(options.command);
    const bool searches = options.command == Command::kSearch;
    refuse_if(has_file && options.kind.has_value(), "FILE and --kind exclude each other");
    refuse_if(has_file && (options.shape.ranks > 0 || options.shape.stages_per_rank > 0),
              "a FILE has its ranks and stages: --ranks and --stages-per-rank are for --kind");
    refuse_if(!has_file && !options.kind.has_value() && !compares && !searches,
              "a FILE or --kind is required");
    refuse_if(!has_file && (options.shape.ranks == 0 || options.shape.microbatches == 0),
              "--ranks and --microbatches are required");
    return line_;
  }
  int exit(const CLI::ParseError& error) { return app_.exit(error) == 0 ? kDone : kUsage; }

 private:
  struct Declared {
    const char* name;
    Command command;
    const char* about;
  };
  static constexpr Declared kCommands[] = {
      {"print", Command::kPrint, "Print a schedule"},
      {"check", Command::kCheck,
       "Tell what is wrong: what is missing or in a wrong order, and where it would stop"},
      {"lower", Command::kLower, "Add the Sends and Recvs"},
      {"simulate", Command::kSimulate,
       "Tell how long it takes, what each rank waits for, its memory"},
      {"search", Command::kSearch, "Find the shortest schedule under a limit of activations"},
      {"compare", Command::kCompare, "Compare all kinds"},
      {"recommend", Command::kRecommend, "List the kinds that fit the limit, the fastest first"},
  };

  static bool is_comparison(Command command) {
    return command == Command::kCompare || command == Command::kRecommend;
  }

  void declare(CLI::App& to, Command command) {
    Options& options = line_.options;
    to.callback([&options, command, &to] {
      options.command = command;
      if (command == Command::kSearch && to.count("--format") == 0) options.format = Format::kCsv;
    });
    constexpr int kMost = leat::pipeline::kGreatestNumber + 1;
    const auto count = [&](const char* name, std::int32_t& into, const std::string& help) {
      to.add_option(name, into, help)->type_name("N")->check(within(1, kMost));
    };
    if (!is_comparison(command)) {
      to.add_option("FILE", options.file, "the schedule")->type_name("");
      std::string names;
      for (const Kind kind : leat::pipeline::kinds()) {
        names += (names.empty() ? "" : ", ") + std::string(name(kind));
      }
      to.add_option_function<std::string>(
            "--kind",
            [&](const std::string& text) { options.kind = leat::pipeline::kind_named(text); },
            "instead of a FILE: " + names)
          ->type_name("KIND")
          ->check(CLI::Validator(
              [names](const std::string& text) {
                return leat::pipeline::kind_named(text).has_value()
                           ? std::string()
                           : "there is no " + text + "; there are " + names;
              },
              ""));
    }
    count("--ranks", options.shape.ranks,
          is_comparison(command) ? "ranks" : "ranks, without a FILE");
    count("--microbatches", options.shape.microbatches,
          is_comparison(command) ? "microbatches" : "microbatches; of a FILE, the greatest + 1");
    count("--stages-per-rank", options.shape.stages_per_rank,
          "stages of each rank, of kinds that have a choice (the fewest)");
    to.add_option(
          "--model", options.model,
          "JSON: forward, backward_input, backward_weight, activation_bytes (a number, or a "
          "list with one for each stage), link, capacity (1 each, link 0, any capacity)")
        ->type_name("FILE");
    if (command != Command::kSearch) {
      to.add_option_function<int>(
            "--capacity", [&](const int& places) { options.capacity = places; },
            "places of each channel (" +
                std::string(command == Command::kCheck ? "0; of an order, any that runs"
                                                       : "the model's, or any number") +
                ")")
          ->type_name("N")
          ->check(within(0, std::numeric_limits<int>::max()));
    }
    if (command != Command::kPrint && command != Command::kLower && command != Command::kSimulate &&
        command != Command::kCompare) {
      to.add_option("--limit", options.limit,
                    "the most activations that live at once on a rank: "
                    "one number, or one for each rank between commas")
          ->type_name("N[,N...]")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(within(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
    }
    if (command == Command::kSearch) {
      to.add_flag("--unsplit", options.unsplit, "with the backward as a whole");
      to.add_option("--seconds", options.seconds, "search for so long (10)")
          ->type_name("S")
          ->check(within(0.0, 1e6));
    }
    to.add_option_function<std::string>(
          "--format",
          [&](const std::string& text) {
            options.format = text == "csv"    ? Format::kCsv
                             : text == "json" ? Format::kJson
                                              : Format::kGrid;
          },
          std::string("grid (for people), csv or json (") +
              (command == Command::kSearch ? "csv" : "grid") + ")")
        ->type_name("FORMAT")
        ->check(CLI::Validator(
            [](const std::string& text) {
              const bool exists = text == "grid" || text == "csv" || text == "json";
              return exists ? std::string() : "there is no " + text + "; there are grid, csv, json";
            },
            ""));
    if (is_comparison(command)) return;
    to.add_option("--svg", line_.svg, "draw the simulated schedule")->type_name("FILE");
    to.add_option("--trace", line_.trace, "write it as a timeline for Perfetto; a tick is 1 us")
        ->type_name("FILE");
  }

  CLI::App app_{"Prints, checks, simulates, compares and finds pipeline-parallel schedules."};
  CommandLine line_;
};

}  // namespace

std::optional<CommandLine> parse_options(int argc, char** argv, int& status) {
  Parser parser;
  try {
    return parser.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = parser.exit(error);
    return std::nullopt;
  }
}

}  // namespace schedule_program
