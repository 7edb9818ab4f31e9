// What leat-schedule does, without its arguments and its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/schedule/table.h"

namespace schedule_program {

enum class Command : std::uint8_t {
  kPrint,
  kCheck,
  kLower,
  kSimulate,
  kSearch,
  kCompare,
  kRecommend,
};

/// What is asked for.
struct Options {
  Command command = Command::kPrint;
  std::string file;  ///< the schedule; "-": the standard input; empty: of `kind`
  std::optional<leat::pipeline::Kind> kind;
  /// With a file, its microbatches alone are looked at: 0 is as many as there are.
  leat::pipeline::ScheduleShape shape = {.ranks = 0, .microbatches = 0};
  std::string model;            ///< a file (model.h); empty: all stages alike, of 1 tick each
  std::optional<int> capacity;  ///< none: the model's
  std::vector<std::int64_t> limit;
  bool unsplit = false;
  double seconds = 10;
  Format format = Format::kGrid;
  bool wants_svg = false;
  bool wants_trace = false;
};

/// The exit status of the program.
enum Status : int {
  kDone = 0,
  kFailed = 1,      ///< a check failed, or nothing fits
  kUsage = 2,       ///< what is asked for cannot be
  kUnreadable = 3,  ///< a file cannot be read, or has no schedule or no model; or not be written
};

/// What comes of it.
struct Result {
  std::string text;   ///< for the standard output
  std::string notes;  ///< for the standard error
  int status = kDone;
  std::string svg;    ///< empty: not wanted, or there is nothing to draw
  std::string trace;  ///< as `svg`
};

/// Does what is asked for. Throws leat::Error (ScheduleError is one) for a file that cannot be
/// read, and std::invalid_argument for what is impossible.
[[nodiscard]] Result run(const Options& options);

/// The content of a file; "-" is the standard input. Throws leat::Error.
[[nodiscard]] std::string content_of(const std::string& file);

}  // namespace schedule_program
