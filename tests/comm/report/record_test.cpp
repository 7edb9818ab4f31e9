// leat-comm-report: files that flight recorders have written are read.
#include "leat/comm/report/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/recorder/flight_recorder.h"
#include "leat/comm/report/join.h"
#include "tests/comm/report/operations.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace report_test {

using namespace std::chrono_literals;
using comm_report::Entry;
using comm_report::Record;

std::string real_text() {
  FlightRecorder recorder(1, 4);
  recorder.joined(0, std::array{0, 1, 2, 3});
  recorder.joined(77, std::array{3, 1});
  recorder.left(77);
  recorder.end(recorder.begin(sum(3, 25, "layer 1"), 0, TimePoint(5ns)), TimePoint(6ns), false);
  recorder.end(recorder.begin(barrier(4), 0, TimePoint(5ns)), TimePoint(6ns), true);
  static_cast<void>(recorder.begin(message(kRecv, 0, 9), 77, TimePoint(7ns)));
  const Failure failure = {.peer = 2, .operation = "x", .what = "50% of\nrank 2 is late"};
  return recorder.text(&failure);
}

TEST(CommReportRecord, HasWhatTheRecorderWrote) {
  std::vector<std::string> warnings;
  const Record one = comm_report::read_record("f", real_text(), warnings).value();
  EXPECT_EQ(warnings, std::vector<std::string>());
  EXPECT_TRUE(one.is_whole);
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.size, 4);
  EXPECT_EQ(one.failure, "50% of?rank 2 is late");
  ASSERT_EQ(one.memberships.size(), 2U);
  EXPECT_EQ(one.memberships[0].members, (std::vector{0, 1, 2, 3}));
  EXPECT_FALSE(one.memberships[0].has_left);
  EXPECT_EQ(one.memberships[1].context, 77U);
  EXPECT_EQ(one.memberships[1].members, (std::vector{3, 1}));
  EXPECT_TRUE(one.memberships[1].has_left);
  ASSERT_EQ(one.entries.size(), 3U);
  EXPECT_EQ(one.entries[0].what, "all_reduce of 25 float32");
  EXPECT_EQ(one.entries[0].label, "layer 1");
  EXPECT_EQ(one.entries[0].number, 3U);
  EXPECT_EQ(one.entries[0].state, Entry::State::kEnded);
  EXPECT_EQ(one.entries[1].what, "barrier");
  EXPECT_EQ(one.entries[1].state, Entry::State::kFailed);
  EXPECT_EQ(one.entries[2].what, "recv of 5 int64");
  EXPECT_EQ(one.entries[2].context, 77U);
  EXPECT_EQ(one.entries[2].peer, 0);
  EXPECT_TRUE(one.entries[2].is_recv);
  EXPECT_EQ(one.entries[2].state, Entry::State::kOpen);
}

TEST(CommReportRecord, AFileThatWasCutAtAnyByteIsReadAsFarAsItGoes) {
  const std::string text = real_text();
  const std::size_t header = text.find('\n');
  std::vector<std::string> none;
  const Record whole = comm_report::read_record("f", text, none).value();
  for (std::size_t size = 0; size < text.size(); ++size) {
    std::vector<std::string> warnings;
    const std::string cut = text.substr(0, size);
    const auto one = comm_report::read_record("f", cut, warnings);
    ASSERT_EQ(one.has_value(), size > header) << size;
    const auto line = 1 + std::count(cut.begin(), cut.end(), '\n');
    ASSERT_EQ(warnings.size(), 1U) << size;
    leat::support::expect_begins(warnings[0], "f:" + std::to_string(line) + ": ");
    if (!one.has_value()) continue;
    EXPECT_FALSE(one->is_whole);
    // The whole lines, and nothing of the last one.
    std::size_t entries = 0;
    for (const char* const state : {" ended\n", " failed\n", " open\n"}) {
      entries += cut.find(state) != std::string::npos ? 1U : 0U;
    }
    ASSERT_EQ(one->entries.size(), entries) << size;
    for (std::size_t i = 0; i < entries; ++i) {
      EXPECT_EQ(one->entries[i].what, whole.entries[i].what);
    }
    EXPECT_EQ(one->failure.empty(), cut.find("late\n") == std::string::npos) << size;
  }
}

TEST(CommReportRecord, WhatIsNoRecordersFileIsToldWithItsLine) {
  const std::string head = "leat-comm-recorder 1 rank 0 of 2 pid 1 host h operations 1\n";
  const std::string entry = "1 0 barrier sum uint8 0 -1 0 -1 - - 1 - open\n";
  struct Case {
    std::string text;
    std::string warning;
    std::optional<std::size_t> entries;  // none: nothing is read
  };
  for (const Case& one : std::vector<Case>{
           {"", "f:1: no flight", {}},
           {"\x7f"
            "ELF\n",
            "f:1: no flight",
            {}},
           {"leat-comm-recorder 2 rank 0 of 2 pid 1 host h operations 1\nend\n", "version", {}},
           {"leat-comm-recorder 1 rank 2 of 2 pid 1 host h operations 1\n", "f:1: no rank", {}},
           {"leat-comm-recorder 1 rank -1 of 2 pid 1 host h operations 1\n", "f:1: no rank", {}},
           {"leat-comm-recorder 1 rank 0 of 2000000000 pid 1 host h operations 1\n", "f:1: ", {}},
           {head + entry + "what is this\nend\n", "f:3: no line", 1},
           {head + entry + "2 0 barrier sum uint8 0 -1 x -1 - - 1 - open\n", "f:3: no line", 1},
           {head + "\nend\n", "f:2: no line", 0},
           {head + "communicator 0 joined ranks 0-2\n", "f:2: no line", 0},
           {head + "communicator 0 joined ranks 0-999999999999\n", "f:2: no line", 0},
           {head + "communicator 0 joined ranks 0,0,0\n", "f:2: no line", 0},
           {head + "communicator 0 joined ranks \n", "f:2: no line", 0},
           {head + entry + "end\nmore\n", "f:4: ignored", 1}}) {
    std::vector<std::string> warnings;
    const auto read = comm_report::read_record("f", one.text, warnings);
    ASSERT_EQ(warnings.size(), 1U) << one.text;
    leat::support::expect_contains(warnings[0], {one.warning});
    ASSERT_EQ(read.has_value(), one.entries.has_value()) << one.text;
    if (read.has_value()) {
      EXPECT_EQ(read->entries.size(), *one.entries) << one.text;
    }
  }
}

TEST(CommReportRecord, AnyByteMayBeWrong) {
  const std::string text = real_text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char wrong : {'\0', '\n', ' ', '-', '9', '%', ',', '\xff'}) {
      std::string other = text;
      other[i] = wrong;
      std::vector<std::string> warnings;
      std::optional<Record> read = comm_report::read_record("f", other, warnings);
      if (!read.has_value()) continue;
      const comm_report::Report report = comm_report::join({*std::move(read)});
      for (const char c : report.text) EXPECT_TRUE(c == '\n' || (c & 0xE0) != 0) << int{c};
    }
  }
}

}  // namespace report_test
}  // namespace leat::comm
