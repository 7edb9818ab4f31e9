// The arguments of leat-schedule.
#pragma once

#include <optional>
#include <string>

#include "leat/pipeline/schedule/commands.h"

namespace schedule_program {

/// What the command line asks for.
struct CommandLine {
  Options options;
  std::string svg;    ///< the file for the figure; empty: none
  std::string trace;  ///< the file for the timeline; empty: none
};

/// Parses the arguments. For --help, --version and wrong arguments, writes the answer and returns
/// nothing; `status` is then the program's exit status.
[[nodiscard]] std::optional<CommandLine> parse_options(int argc, char** argv, int& status);

}  // namespace schedule_program
