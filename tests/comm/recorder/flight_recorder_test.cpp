#include "leat/comm/recorder/flight_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/base/on_sigquit.h"
#include "tests/comm/support/files.h"
#include "tests/support/child.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace flight_recorder_test {

using namespace std::chrono_literals;

Operation all_reduce(std::uint64_t number, const char* label = nullptr) {
  Operation operation;
  operation.signature = {
      .kind = OperationKind::kAllReduce, .dtype = DType::kFloat32, .count = 25, .number = number};
  operation.label = label;
  return operation;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

// An empty directory, removed at the end.
class FlightRecorderFiles : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& one : std::filesystem::directory_iterator(directory)) {
      all.push_back(one.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }

  const support::TemporaryDirectory made;
  const std::filesystem::path& directory = made.path();
};

TEST(FlightRecorder, TellsWhatEndedWhatFailedAndWhatIsOpen) {
  FlightRecorder recorder(1, 4);
  const auto first = recorder.begin(all_reduce(1, "fc1.weight"), 42, TimePoint(10ns));
  const auto second = recorder.begin(all_reduce(2), 42, TimePoint(20ns));
  static_cast<void>(recorder.begin(all_reduce(3), 42, TimePoint(30ns)));
  recorder.end(first, TimePoint(40ns), false);
  recorder.end(second, TimePoint(50ns), true);
  const std::vector<std::string> lines = lines_of(recorder.text(nullptr));
  ASSERT_EQ(lines.size(), 6U);
  leat::support::expect_contains(
      lines[0], {"leat-comm-recorder 1 rank 1 of 4 pid " + std::to_string(getpid()) + " host ",
                 " operations 3"});
  EXPECT_EQ(lines[2], "1 42 all_reduce sum float32 25 -1 1 -1 - fc1.weight 10 40 ended");
  EXPECT_EQ(lines[3], "2 42 all_reduce sum float32 25 -1 2 -1 - - 20 50 failed");
  EXPECT_EQ(lines[4], "3 42 all_reduce sum float32 25 -1 3 -1 - - 30 - open");
  EXPECT_EQ(lines[5], "end");
}

TEST(FlightRecorder, TellsTheFailure) {
  const FlightRecorder recorder(0, 2);
  const Failure failure{.is_mismatch = true,
                        .peer = 1,
                        .operation = "all_reduce of 25 float32 (number 7)",
                        .tensor = "fc 1",
                        .what = "rank 1 called\nsomething else"};
  leat::support::expect_contains(
      recorder.text(&failure), {"\nfailure mismatch peer 1 operation "
                                "all_reduce%20of%2025%20float32%20(number%207) tensor fc%201 what "
                                "rank%201%20called%0Asomething%20else\nend\n"});
}

TEST(FlightRecorder, KeepsTheLast1024Operations) {
  FlightRecorder recorder(0, 1);
  std::vector<std::uint64_t> entries;
  for (std::uint64_t i = 1; i <= 1500; ++i) {
    entries.push_back(recorder.begin(all_reduce(i), 42, TimePoint(Duration(i))));
  }
  // The ends of those that are gone change nothing of those that took their places.
  for (std::size_t i = 0; i < 1500 - 1024; ++i) recorder.end(entries[i], TimePoint(1s), true);
  const std::vector<std::string> lines = lines_of(recorder.text(nullptr));
  ASSERT_EQ(lines.size(), 1024U + 3);
  for (std::uint64_t i = 0; i < 1024; ++i) {
    const std::string number = std::to_string(1500 - 1024 + 1 + i);
    EXPECT_EQ(lines[2 + i], number + " 42 all_reduce sum float32 25 -1 " + number + " -1 - - " +
                                number + " - open");
  }
}

TEST(FlightRecorder, ALabelIsOneWordWhateverIsInIt) {
  for (const auto& [label, word] : std::vector<std::pair<std::string, std::string>>{
           {"", "-"},
           {"-", "%2D"},
           {"a b\n\"c\"\t%", "a%20b%0A\"c\"%09%25"},
           {"schön", "schön"},
           {std::string(200, 'x'), std::string(63, 'x')},
           // Cut between characters of two bytes.
           {std::string(62, 'x') + "öö", std::string(62, 'x')}}) {
    FlightRecorder recorder(0, 1);
    static_cast<void>(recorder.begin(all_reduce(1, label.c_str()), 42, TimePoint(1ns)));
    const std::vector<std::string> words = words_of(lines_of(recorder.text(nullptr))[2]);
    ASSERT_EQ(words.size(), 14U);
    EXPECT_EQ(words[10], word);
  }
}

TEST_F(FlightRecorderFiles, AreWrittenWholeAndLeaveNothingElse) {
  FlightRecorder recorder(3, 4);
  for (int i = 0; i < 2; ++i) {  // the second takes the place of the first
    static_cast<void>(recorder.begin(all_reduce(1), 42, TimePoint(1ns)));
    EXPECT_TRUE(recorder.write(directory, nullptr));
    EXPECT_EQ(names(), std::vector<std::string>{"rank-3.leat-comm"});
    EXPECT_EQ(support::content_of(directory / "rank-3.leat-comm"), recorder.text(nullptr));
  }
  EXPECT_FALSE(recorder.write(directory / "none", nullptr));
  // In the way of the name is a directory that is not empty.
  std::filesystem::create_directories(directory / "rank-5.leat-comm" / "inside");
  EXPECT_FALSE(FlightRecorder(5, 6).write(directory, nullptr));
  EXPECT_EQ(names(), (std::vector<std::string>{"rank-3.leat-comm", "rank-5.leat-comm"}));
}

TEST_F(FlightRecorderFiles, NeedADirectoryThatExists) {
  OpenOptions options;
  options.recorder_directory = directory / "none";
  leat::support::expect_contains(leat::support::text_thrown_by<std::invalid_argument>(
                                     [&] { static_cast<void>(open("local:2", options)); }),
                                 {"recorder_directory", "none"});
}

TEST(OnSigquit, CallsEachThatLivesAndTellsAnException) {
  EXPECT_EQ(leat::support::in_child([]() -> std::string {
              std::atomic<int> first{0};
              std::atomic<int> second{0};
              {
                const OnSigquit one([&] { first += 1; });
                const OnSigquit two([&]() {
                  second += 1;
                  throw std::runtime_error("as meant");
                });
                std::raise(SIGQUIT);
              }
              return first == 1 && second == 1 ? "" : "not called once each";
            }),
            "");
}

}  // namespace flight_recorder_test
}  // namespace leat::comm
