// The place of the conformance suite under mpirun: this process is one rank.
//
// A process opens MPI once, so all tests share a world: each works on a communicator of its own, of
// the first ranks. A test that needs more ranks than there are is left out; one that ends the world
// is run alone (failures.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm::support {
namespace {

Communicator& world(OpenOptions options) {
  if (const char* const limit = std::getenv("LEAT_TEST_MESSAGE_LIMIT")) {
    options.message_limit = std::strtoull(limit, nullptr, 10);
  }
  static Communicator ranks = std::move(open("mpi", options).front());
  return ranks;
}

void run_process(int ranks, const OpenOptions& options, const RankBody& body) {
  Communicator& all = world(options);
  if (ranks > all.size()) return;
  std::optional<Communicator> first = all.split(all.rank() < ranks ? 0 : -1);
  if (first.has_value()) call_and_check(body, *first);
}

}  // namespace

void call_and_check(const RankBody& body, Communicator& me) {
  const int rank = me.rank();
  try {
    body(me);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << rank << ": " << e.what();
  }
}

std::vector<RankPlace> rank_places() { return {{"Mpi", &run_process}}; }

}  // namespace leat::comm::support

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string_view(rank) != "0") GTEST_FLAG_SET(brief, true);
  return RUN_ALL_TESTS();
}
