// leat-schedule: prints, checks, simulates, compares and finds pipeline-parallel schedules.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "leat/csp/error.h"
#include "leat/pipeline/schedule/commands.h"
#include "leat/pipeline/schedule/options.h"

namespace {

using namespace schedule_program;

void write(const std::string& file, const std::string& text) {
  if (text.empty()) return;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    throw leat::Error("cannot write " + file + ": " + std::generic_category().message(errno));
  }
}

int answer(const CommandLine& line) {
  const Result result = run(line.options);
  std::fputs(result.notes.c_str(), stderr);
  if (std::fwrite(result.text.data(), 1, result.text.size(), stdout) != result.text.size() ||
      std::fflush(stdout) != 0) {
    throw leat::Error("cannot write to the standard output: " +
                      std::generic_category().message(errno));
  }
  write(line.svg, result.svg);
  write(line.trace, result.trace);
  return result.status;
}

}  // namespace

int main(int argc, char** argv) {
  int status = kDone;
  const std::optional<CommandLine> line = parse_options(argc, argv, status);
  if (!line.has_value()) return status;
  try {
    return answer(*line);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "leat-schedule: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "leat-schedule: %s\n", error.what());
    return kUnreadable;
  }
}
