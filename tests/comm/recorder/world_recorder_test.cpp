// When flight recorders are written, and what a world puts into them.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/recorder/flight_recorder.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/files.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/child.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace world_recorder_test {

using namespace std::chrono_literals;
using support::content_of;
using support::TemporaryDirectory;

Operation barrier(std::uint64_t number, const char* label = nullptr) {
  return {.signature = {.kind = OperationKind::kBarrier, .number = number}, .label = label};
}

// The lines of operations.
std::vector<std::string> operations_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line[0] >= '0' && line[0] <= '9') lines.push_back(line);
  }
  return lines;
}

TEST(FlightRecorder, TellsOfWhichCommunicatorsTheRankIsOne) {
  FlightRecorder recorder(0, 9);
  recorder.joined(5, std::array{8, 0, 1, 2, 4, 3});
  recorder.joined(0, std::array{0});
  for (std::uint64_t context = 100; context < 165; ++context) {
    recorder.joined(context, std::array{0, 1});
    recorder.left(context);
  }
  const std::string before = recorder.text(nullptr);
  leat::support::expect_contains(
      before, {"communicator 5 joined ranks 8,0-2,4,3\ncommunicator 0 joined ranks 0\n",
               "communicator 100 left ranks 0-1\n"});
  recorder.joined(165, std::array{0, 1});  // forgets the oldest of 65 that were left
  const std::string after = recorder.text(nullptr);
  leat::support::expect_contains(after, {"communicator 5 joined", "communicator 165 joined"});
  EXPECT_EQ(after.find("communicator 100 "), std::string::npos);
  leat::support::expect_contains(after, {"communicator 101 left"});
}

TEST(WrittenRecorder, OnAFullDiskTheFileStaysWhatItWas) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "rank-0.leat-comm";
  std::ofstream(file) << "before";
  EXPECT_EQ(leat::support::in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit most = {.rlim_cur = 40, .rlim_max = 40};
              if (setrlimit(RLIMIT_FSIZE, &most) != 0) return "no limit";
              return FlightRecorder(0, 1).write(directory.path(), nullptr) ? "written" : "";
            }),
            "");
  EXPECT_EQ(content_of(file), "before");
  const std::filesystem::directory_iterator files(directory.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(WrittenRecorder, ThreadsRecordAndWriteAtTheSameTime) {
  constexpr int kThreads = 3;
  const TemporaryDirectory directory;
  const auto file = directory.path() / "rank-0.leat-comm";
  FlightRecorder recorder(0, 1);
  ASSERT_TRUE(recorder.write(directory.path(), nullptr));
  std::atomic<int> recording{kThreads};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 3'000; ++i) {
          const std::uint64_t entry = recorder.begin(barrier(0, "label"), 0, TimePoint(1ns));
          recorder.end(entry, TimePoint(2ns), false);
        }
        --recording;
      });
    }
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        do {
          EXPECT_TRUE(recorder.write(directory.path(), nullptr));
          const std::string text = content_of(file);  // whole, whoever has written it
          EXPECT_TRUE(text.starts_with("leat-comm-recorder 1 ") && text.ends_with("\nend\n"));
        } while (recording > 0);
      });
    }
  }
  const std::string text = recorder.text(nullptr);
  leat::support::expect_contains(text, {"operations 9000\n"});
  for (const std::string& line : operations_of(text)) {
    EXPECT_TRUE(line.ends_with(" 0 barrier sum uint8 0 -1 0 -1 - label 1 2 ended")) << line;
  }
}

// ---- a world's

OpenOptions recording_in(const TemporaryDirectory& directory, Duration deadline = 1h) {
  return {.deadline = deadline, .recorder_directory = directory.path()};
}

std::string file_of(const TemporaryDirectory& directory, int rank) {
  return content_of(directory.path() / ("rank-" + std::to_string(rank) + ".leat-comm"));
}

TEST(WorldRecorder, AFailureWritesTheFilesOfAllRanks) {
  const TemporaryDirectory directory;
  const auto body = [](Communicator& me) {
    me.barrier().await();
    if (me.rank() == 1) return sleep_until(TimePoint(1min));
    EXPECT_THROW(me.barrier().await(), CommError);
  };
  support::rank_places()[0].run(3, recording_in(directory, 1s), body);
  for (const int rank : {0, 1, 2}) {
    const std::string text = file_of(directory, rank);
    leat::support::expect_contains(
        text, {"communicator 0 joined ranks 0-2\n", "1 0 barrier sum uint8 0 -1 0 -1 - - 0 0 ended",
               "\nfailure error peer 1 operation barrier", "\nend\n"});
    EXPECT_EQ(text.find("2 0 barrier sum uint8 0 -1 1 -1 - - 0 - open\n") != std::string::npos,
              rank != 1)
        << text;
  }
}

volatile std::sig_atomic_t earlier_calls = 0;
extern "C" void count_call(int /*signal*/) { earlier_calls = earlier_calls + 1; }

// Has a handler of its own for SIGQUIT, which World's stands in front of.
class WorldOnSigquit : public testing::Test {
 protected:
  void SetUp() override {
    earlier_calls = 0;
    std::signal(SIGQUIT, &count_call);
  }
  void TearDown() override { std::signal(SIGQUIT, SIG_DFL); }
};

TEST_F(WorldOnSigquit, WritesTheFilesWhileAnOperationIsOpen) {
  const TemporaryDirectory directory;
  std::vector<Communicator> ranks = open("local:2", recording_in(directory));
  std::array<float, 3> data = {};
  Completion recv = ranks[0].recv(data, 1, 8);
  std::raise(SIGQUIT);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (file_of(directory, 1).empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  leat::support::expect_contains(file_of(directory, 0),
                                 {"1 0 recv sum float32 3 -1 8 1 - - ", " - open\nend\n"});
  leat::support::expect_contains(file_of(directory, 1), {" operations 0\n", "\nend\n"});
  EXPECT_EQ(earlier_calls, 0);
  ranks[1].send(data, 0, 8).await();  // nothing was disturbed
  recv.await();
}

TEST_F(WorldOnSigquit, IsAnsweredBeforeTheWorldEndsWhichRestoresTheHandler) {
  const TemporaryDirectory directory;
  {
    std::vector<Communicator> ranks = open("local:2", recording_in(directory));
    const std::vector<Communicator> others = open("local:1", recording_in(directory));
    std::raise(SIGQUIT);
  }
  EXPECT_FALSE(file_of(directory, 0).empty());
  leat::support::expect_contains(file_of(directory, 1), {"rank 1 of 2", "\nend\n"});
  EXPECT_EQ(earlier_calls, 0);
  std::raise(SIGQUIT);
  EXPECT_EQ(earlier_calls, 1);
}

TEST_F(WorldOnSigquit, AfterAFailureKeepsIt) {
  const TemporaryDirectory directory;
  {
    const std::vector<Communicator> ranks = open("local:2", recording_in(directory));
    Completion barrier = ranks[0].barrier();
    ranks[1].abort("no disk");
    leat::support::expect_contains(file_of(directory, 0), {" open\nfailure error peer 1 "});
    std::raise(SIGQUIT);
  }
  leat::support::expect_contains(file_of(directory, 0), {" failed\nfailure error peer 1 "});
}

TEST_F(WorldOnSigquit, IsLeftAloneWithoutADirectory) {
  const std::vector<Communicator> ranks = open("local:2");
  std::raise(SIGQUIT);
  EXPECT_EQ(earlier_calls, 1);
}

}  // namespace world_recorder_test
}  // namespace leat::comm
