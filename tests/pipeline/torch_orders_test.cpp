// The orders of the torch that is installed. LEAT_PYTHON names the Python that has it; otherwise it
// is python3.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "leat/pipeline/kinds.h"
#include "leat/pipeline/text.h"

namespace leat::pipeline {
namespace {

/// What a command prints; its exit status.
struct Printed {
  std::string text;
  int status = -1;
};
Printed printed_by(const std::string& command) {
  Printed printed;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return printed;
  char part[4096];
  for (std::size_t size = 0; (size = std::fread(part, 1, sizeof part, pipe)) > 0;) {
    printed.text.append(part, size);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) printed.status = WEXITSTATUS(status);
  return printed;
}

/// The rows as CSV without idle cells; "refused".
std::string order_or_refused(Kind kind, const ScheduleShape& shape) {
  try {
    Schedule schedule = make(kind, shape);
    for (Row& row : schedule.rows) std::erase(row, Cell{});
    std::string csv = to_csv(schedule);
    std::erase(csv, '\r');
    return csv;
  } catch (const std::invalid_argument&) {
    return "refused\n";
  }
}

TEST(PipelineKinds, OrdersAreThoseOfTheInstalledTorch) {
  const char* const python = std::getenv("LEAT_PYTHON");
  const Printed printed = printed_by(std::string(python == nullptr ? "python3" : python) +
                                     " tests/pipeline/torch_orders.py 2>&1");
  if (printed.status == 77 || printed.status == 127) GTEST_SKIP() << printed.text;
  ASSERT_EQ(printed.status, 0) << printed.text;

  std::istringstream lines(printed.text);
  int compared = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("torch ");) {
    std::istringstream words(line);
    std::string named;
    ScheduleShape shape;
    words >> named >> shape.ranks >> shape.microbatches >> shape.stages_per_rank;
    const auto kind = kind_named(named);
    ASSERT_TRUE(words && kind) << line;
    std::string theirs;
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      std::string row;
      std::getline(lines, row);
      theirs += row + "\n";
      if (row == "refused") break;
    }
    // With one stage for each rank, Leat takes any number of microbatches.
    if (theirs == "refused\n" && kind == Kind::kZeroBubble && shape.stages_per_rank == 1) continue;
    ASSERT_EQ(order_or_refused(*kind, shape), theirs) << line;
    ++compared;
  }
  EXPECT_GT(compared, 600);
}

}  // namespace
}  // namespace leat::pipeline
