// What the demo shows of overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

#include "examples/03_mnist/show_overlap.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"

namespace mnist {
namespace mnist_overlap_test {

TEST(MnistOverlap, TheVerdictHasThreeSignificantDigits) {
  EXPECT_EQ(verdict(1.9e-3, 1.0e-3),
            "1.90 ms a step in turns, 1.00 ms overlapped: 1.9 times as fast");
  EXPECT_EQ(verdict(1.04e-3, 0.5234e-3),
            "1.04 ms a step in turns, 0.523 ms overlapped: 2.0 times as fast");
  EXPECT_EQ(verdict(23.6e-3, 9.96e-3),
            "23.6 ms a step in turns, 9.96 ms overlapped: 2.4 times as fast");
}

// In how many columns of a picture both bars are, of the copy and of the computing.
int columns_of_both(const std::string& shown, int picture) {
  std::size_t begin = shown.find("  copy ");
  for (; picture > 0; --picture) begin = shown.find("  copy ", begin + 1);
  std::istringstream lines(shown.substr(begin));
  std::string copy;
  std::string compute;
  std::getline(lines, copy);
  std::getline(lines, compute);
  for (std::string* const line : {&copy, &compute}) {  // a character for each column
    std::erase_if(*line, [](char c) { return (c & 0xC0) == 0x80; });
  }
  int both = 0;
  for (std::size_t i = 10; i < std::min(copy.size(), compute.size()); ++i) {
    both += copy[i] != ' ' && compute[i] != ' ' ? 1 : 0;
  }
  return both;
}

TEST(MnistOverlap, ShowsTwoTimelinesAndTheVerdictIn80Columns) {
  std::string shown;
  leat::run([&] {
    const leat::feeder::Mnist images("examples/data/mnist", leat::feeder::Mnist::kTest);
    shown = show_overlap({}, leat::gpu::open("host"), images);
  });
  std::istringstream lines(shown);
  std::string words;
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    words += line.substr(0, line.find_first_of(" :", 2)) + "|";
    widest = std::max<std::size_t>(widest, static_cast<std::size_t>(std::ranges::count_if(
                                               line, [](char c) { return (c & 0xC0) != 0x80; })));
  }
  EXPECT_LE(widest, 80U) << shown;
  EXPECT_TRUE(
      words.starts_with("The|(the||In|  copy|  compute|  time||"
                        "Overlapped|  copy|  compute|  time||"))
      << shown;
  EXPECT_NE(shown.find(" times as fast\n"), std::string::npos) << shown;
  // In turns, a copy begins where the work before it has ended; a bar has at least one column.
  // Overlapped, a copy runs beside the work before it.
  EXPECT_LE(columns_of_both(shown, 0), 6) << shown;
  EXPECT_GE(columns_of_both(shown, 1), 1) << shown;
}

}  // namespace mnist_overlap_test
}  // namespace mnist
