// One conformance suite for all transports: a test is a function of one rank's communicator, and
// is run on every rank, wherever the ranks are.
//
//   class Collectives : public RankTest {};
//   INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::ValuesIn(rank_places()),
//                            rank_place_title);
//   TEST_P(Collectives, EndOnAllRanks) {
//     on_ranks([](Communicator& me) { me.barrier().await(); });
//   }
//
// The program that links the suite defines rank_places(): for "local", every rank is a fiber or a
// thread of this process; under mpirun, this process is one rank.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"

namespace leat::comm::support {

using RankBody = std::function<void(Communicator& me)>;

/// A way to run ranks.
struct RankPlace {
  std::string title;
  /// Calls body on each rank of this process of a new world of `ranks` ranks. Returns when all of
  /// them have returned. An exception that leaves body fails the test.
  void (*run)(int ranks, const OpenOptions& options, const RankBody& body);
};

inline void PrintTo(const RankPlace& place, std::ostream* out) {  // NOLINT: GoogleTest's name
  *out << place.title;
}

/// The places of this program.
[[nodiscard]] std::vector<RankPlace> rank_places();
[[nodiscard]] inline std::string rank_place_title(const testing::TestParamInfo<RankPlace>& info) {
  return info.param.title;
}

/// Calls body(me), and fails the test if an exception leaves it.
inline void call_and_check(const RankBody& body, Communicator& me) {
  const int rank = me.rank();
  try {
    body(me);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << rank << ": " << e.what();
  }
}

/// The same on each rank of "local", whose ranks are fibers in virtual time: of one worker, then of
/// two.
inline void in_virtual_time(int ranks, const OpenOptions& options, const RankBody& body) {
  for (const std::size_t place : {0U, 1U}) rank_places()[place].run(ranks, options, body);
}

class RankTest : public testing::TestWithParam<RankPlace> {
 protected:
  static void on_ranks(int ranks, const RankBody& body, const OpenOptions& options = {}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << ranks << " ranks");
    GetParam().run(ranks, options, body);
  }
  /// With 1 to 4 ranks.
  static void on_ranks(const RankBody& body) {
    for (const int ranks : {1, 2, 3, 4}) on_ranks(ranks, body);
  }
};

}  // namespace leat::comm::support
