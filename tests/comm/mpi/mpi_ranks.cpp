// The place of the conformance suite under mpirun: this process is one rank.
//
// A process opens MPI once, so all tests share a world: each works on a communicator of its own, of
// the first ranks. A test that needs more ranks than there are is left out; one that ends the world
// is run alone (failures.sh).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "tests/comm/mpi/process.h"
#include "tests/comm/support/ranks.h"

namespace leat::comm::support {
namespace {

Communicator& world(OpenOptions options) {
  if (const char* const limit = std::getenv("LEAT_TEST_MESSAGE_LIMIT")) {
    options.message_limit = std::strtoull(limit, nullptr, 10);
  }
  static Communicator ranks = open_process(options);
  return ranks;
}

// A test that ends the world must not end another rank's split(): waits, without MPI, until all
// ranks have come.
void meet(const Communicator& all) {
  const char* const set = std::getenv("LEAT_TEST_OUTCOMES");
  if (set == nullptr) return;
  const std::filesystem::path folder(set);
  std::ofstream(folder / ("here-" + std::to_string(all.rank()))).close();
  for (int rank = 0; rank < all.size();) {
    if (std::filesystem::exists(folder / ("here-" + std::to_string(rank)))) {
      ++rank;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void run_process(int ranks, const OpenOptions& options, const RankBody& body) {
  Communicator& all = world(options);
  if (ranks > all.size()) return;
  std::optional<Communicator> first = all.split(all.rank() < ranks ? 0 : -1);
  meet(all);
  if (first.has_value()) call_and_check(body, *first);
}

}  // namespace

std::vector<RankPlace> rank_places() { return {{process_title(), &run_process}}; }

}  // namespace leat::comm::support

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const set = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string rank = set != nullptr ? set : "0";
  if (rank != "0") GTEST_FLAG_SET(brief, true);
  const int result = RUN_ALL_TESTS();
  // mpirun --enable-recovery returns 0, whatever its ranks return.
  if (const char* const folder = std::getenv("LEAT_TEST_OUTCOMES")) {
    std::ofstream(std::string(folder) + "/rank-" + rank) << result << '\n';
  }
  return result;
}
