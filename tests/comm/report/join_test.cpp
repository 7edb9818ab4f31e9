// leat-comm-report: what the files of several ranks tell together.
#include "leat/comm/report/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/recorder/flight_recorder.h"
#include "leat/comm/report/record.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/report/operations.h"
#include "tests/comm/support/files.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace report_test {

using namespace std::chrono_literals;
using comm_report::Record;
using comm_report::Report;

// The recorders of a run.
class Recorders {
 public:
  explicit Recorders(int size) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    for (const int rank : all) {
      recorders_.push_back(std::make_unique<FlightRecorder>(rank, size));
      recorders_.back()->joined(0, all);
    }
  }
  FlightRecorder& operator[](int rank) { return *recorders_[static_cast<std::size_t>(rank)]; }

  void open(int rank, const Operation& operation, std::uint64_t context = 0) {
    static_cast<void>((*this)[rank].begin(operation, context, TimePoint(1ns)));
  }
  void end(int rank, const Operation& operation, std::uint64_t context = 0) {
    (*this)[rank].end((*this)[rank].begin(operation, context, TimePoint(1ns)), TimePoint(2ns),
                      false);
  }
  void end_on_all(const Operation& operation) {
    for (const auto& one : recorders_) {
      one->end(one->begin(operation, 0, TimePoint(1ns)), TimePoint(2ns), false);
    }
  }
  // What `rank` has written.
  [[nodiscard]] Record read(int rank, const Failure* failure = nullptr) {
    std::vector<std::string> warnings;
    std::optional<Record> one = comm_report::read_record("file-" + std::to_string(rank),
                                                         (*this)[rank].text(failure), warnings);
    EXPECT_EQ(warnings, std::vector<std::string>());
    return one.value();
  }
  [[nodiscard]] Report join(const std::vector<int>& without = {}) {
    std::vector<Record> records;
    for (int rank = 0; rank < static_cast<int>(recorders_.size()); ++rank) {
      if (std::ranges::find(without, rank) == without.end()) records.push_back(read(rank));
    }
    return comm_report::join(std::move(records));
  }

 private:
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;
};

TEST(CommReport, OfRanksThatHaveEndedEverythingTellsTheLastNumber) {
  Recorders ranks(3);
  for (std::uint64_t number = 0; number < 42; ++number) ranks.end_on_all(barrier(number));
  ranks[2].left(0);
  const Report report = ranks.join();
  EXPECT_EQ(report.text,
            "3 of 3 ranks have a file\n"
            "communicator 0 of ranks 0-2: all ended up to number 41\n");
  EXPECT_TRUE(report.is_complete);
  EXPECT_FALSE(report.is_open);
}

TEST(CommReport, TellsWhoHasNotArrivedAndWhoHasNoFile) {
  Recorders ranks(4);
  ranks.end_on_all(barrier(0));
  ranks.end_on_all(sum(1, 10, "a"));
  ranks.open(0, sum(2, 25, "layer 1"));
  ranks.open(2, sum(2, 25, "layer 1"));
  ranks.open(2, barrier(3));
  const Report report = ranks.join({3});
  EXPECT_EQ(report.text,
            "3 of 4 ranks have a file\n"
            "rank 3: no file; killed, or it wrote to another directory\n"
            "communicator 0 of ranks 0-3: all ended up to number 1\n"
            "  number 2: all_reduce of 25 float32, tensor layer 1\n"
            "    waiting: ranks 0,2\n"
            "    not called: rank 1\n"
            "    no file: rank 3\n"
            "  number 3: barrier\n"
            "    waiting: rank 2\n"
            "    not called: ranks 0-1\n"
            "    no file: rank 3\n");
  EXPECT_FALSE(report.is_complete);
  EXPECT_TRUE(report.is_open);
}

TEST(CommReport, ShowsWhatDiffersSideBySide) {
  Recorders ranks(3);
  Operation tagged = sum(0, 25);
  tagged.signature.tag = 7;
  ranks.open(0, sum(0, 25));
  ranks.open(1, sum(0, 24, "w"));
  ranks.open(2, tagged);
  EXPECT_EQ(ranks.join().text,
            "3 of 3 ranks have a file\n"
            "communicator 0 of ranks 0-2: number 0 has not ended on all\n"
            "  number 0: the ranks called different things\n"
            "    rank 1: all_reduce of 24 float32, tensor w\n"
            "    rank 0: all_reduce of 25 float32\n"
            "    rank 2: all_reduce of 25 float32 (tag 7)\n"
            "    waiting: ranks 0-2\n");
}

TEST(CommReport, TellsOfARankThatHasLeftAndOfTheFailure) {
  Recorders ranks(2);
  ranks.open(0, barrier(0));
  ranks[1].left(0);
  const Failure failure = {.is_mismatch = true, .peer = 1, .what = "rank 1 has left"};
  const Report report = comm_report::join({ranks.read(0, &failure), ranks.read(1, &failure)});
  EXPECT_EQ(report.text,
            "2 of 2 ranks have a file\n"
            "ranks 0-1 failed: mismatch: rank 1 has left\n"
            "communicator 0 of ranks 0-1: number 0 has not ended on all\n"
            "  number 0: barrier\n"
            "    waiting: rank 0\n"
            "    not called, has left: rank 1\n");
}

TEST(CommReport, JoinsMessagesByPeersOfTheirCommunicatorAndKey) {
  Recorders ranks(3);
  for (const int rank : {2, 1}) ranks[rank].joined(77, std::array{2, 1});
  ranks.end(2, message(kSend, 1, 8), 77);
  ranks.end(1, message(kRecv, 0, 8), 77);
  ranks.open(2, message(kSend, 1, 8), 77);     // to rank 1
  ranks.open(1, message(kRecv, 0, 8, 6), 77);  // from rank 2
  ranks.open(1, message(kRecv, 0, 8), 77);
  ranks.open(0, message(kSend, 2, 8));
  EXPECT_EQ(ranks.join().text,
            "3 of 3 ranks have a file\n"
            "communicator 0 of ranks 0-2: no collective\n"
            "  key 8, from rank 0 to rank 2: send of 5 int64: waiting; rank 2 has no recv of this "
            "key open\n"
            "communicator 77 of ranks 2,1: no collective\n"
            "  key 8, from rank 2 to rank 1: send of 5 int64, and recv of 6 int64: both called, "
            "not ended\n"
            "  key 8, from rank 2 to rank 1: recv of 5 int64: waiting; rank 2 has no send of this "
            "key open\n");
  leat::support::expect_contains(
      ranks.join({2}).text, {"from rank 0 to rank 2: send of 5 int64: waiting; rank 2 has no file "
                             "to tell of a recv of this key\n"});
}

TEST(CommReport, WhatARankNoLongerHasOnRecordIsNotTakenForNotCalled) {
  Recorders ranks(2);
  ranks.end_on_all(barrier(0));
  ranks.open(0, barrier(1));  // rank 1's is overwritten by messages that follow
  ranks.open(1, barrier(1));
  for (std::size_t i = 1; i < FlightRecorder::kEntries; ++i) ranks.end(1, message(kRecv, 0, i));
  ranks.end(1, barrier(2));
  leat::support::expect_contains(ranks.join().text,
                                 {"number 1: barrier\n    waiting: rank 0\n    called, but no "
                                  "longer among its last operations: rank 1\n"});
}

TEST(CommReport, FilesOfDifferentInstantsAreUnderstood) {
  Recorders ranks(3);
  ranks.end_on_all(barrier(0));
  const Record early = ranks.read(0);
  ranks.open(1, barrier(1));
  const Record later = ranks.read(1);
  ranks.end(2, barrier(1));  // so all have called it
  const Report report = comm_report::join({early, later, ranks.read(2)});
  leat::support::expect_contains(
      report.text, {"all ended up to number 0\n", "waiting: rank 1\n",
                    "called since its file was written: rank 0\n", "ended: rank 2\n"});
  EXPECT_EQ(report.text.find("not called"), std::string::npos);
}

TEST(CommReport, WhatIsBehindACutIsNotTakenForNotCalled) {
  Recorders ranks(2);
  ranks.open(0, barrier(0));
  ranks.open(1, barrier(0));
  std::string text = ranks[1].text(nullptr);
  text.resize(text.rfind("1 0 barrier"));
  std::vector<std::string> warnings;
  const Report report =
      comm_report::join({ranks.read(0), comm_report::read_record("cut", text, warnings).value()});
  leat::support::expect_contains(report.text, {"not in what is left of the file: rank 1\n"});
  EXPECT_FALSE(report.is_complete);
}

TEST(CommReport, LeavesOutOtherRunsAndSecondFilesOfARank) {
  Recorders ranks(2);
  Recorders others(3);
  Record again = ranks.read(0);
  again.file = "again";
  const Report report = comm_report::join({ranks.read(0), again, others.read(1), ranks.read(1)});
  EXPECT_EQ(report.text,
            "warning: again is left out: rank 0 has another file, file-0\n"
            "warning: file-1 is left out: it is of a run of 3 ranks, and file-0 of one of 2\n"
            "2 of 2 ranks have a file\n"
            "communicator 0 of ranks 0-1: no collective\n");
  EXPECT_FALSE(report.is_complete);
}

TEST(CommReport, IsShortWhenMuchIsOpen) {
  Recorders ranks(2);
  for (std::uint64_t number = 0; number < 300; ++number) ranks.open(0, barrier(number));
  const std::string text = ranks.join().text;
  leat::support::expect_contains(text, {"  number 9: ", "  and 290 later ones\n"});
  EXPECT_EQ(text.find("  number 10: "), std::string::npos);
}

TEST(CommReport, NamesTheLateRankOfARealRun) {
  const support::TemporaryDirectory directory;
  const OpenOptions options = {.deadline = 1s, .recorder_directory = directory.path()};
  support::rank_places()[0].run(3, options, [](Communicator& me) {
    std::vector<float> data(25);
    me.barrier().await();
    Communicator pair = me.split(me.rank() == 1 ? 1 : 0).value();
    pair.all_reduce(data).await();
    if (me.rank() == 1) return sleep_until(TimePoint(1min));
    EXPECT_THROW(me.all_reduce(data).await(), CommError);
  });
  std::vector<Record> records;
  std::vector<std::string> warnings;
  for (const int rank : {2, 0, 1}) {
    const std::string file = "rank-" + std::to_string(rank) + ".leat-comm";
    const std::string text = support::content_of(directory.path() / file);
    records.push_back(comm_report::read_record(file, text, warnings).value());
  }
  EXPECT_EQ(warnings, std::vector<std::string>());
  const Report report = comm_report::join(std::move(records));
  leat::support::expect_contains(
      report.text,
      {"3 of 3 ranks have a file\nranks 0-2 failed: rank ", "waits for rank 1 ",
       "communicator 0 of ranks 0-2: all ended up to number 1\n"
       "  number 2: all_reduce of 25 float32\n"
       "    waiting: ranks 0,2\n"
       "    not called: rank 1\n",
       " of ranks 0,2: all ended up to number 0\n", " of rank 1: all ended up to number 0\n"});
  EXPECT_TRUE(report.is_complete);
  EXPECT_TRUE(report.is_open);
}

}  // namespace report_test
}  // namespace leat::comm
