#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "leat/comm/communicator.h"

namespace leat::comm {
namespace open_test {

TEST(CommOpen, RefusesNamesOfNoTransport) {
  for (const char* const name :
       {"", "local", "local:", "local:0", "local:-1", "local:4097", "local:2x", "tcp:2"}) {
    try {
      const auto ranks = open(name);
      ADD_FAILURE() << name << " is open";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find('"' + std::string(name) + '"'), std::string::npos)
          << error.what();
    }
  }
}

TEST(CommOpen, RefusesOptionsOutOfRange) {
  using namespace std::chrono_literals;
  const OpenOptions all[] = {
      {.deadline = 0s},
      {.threads = 0},
      {.threads = 4097},
      {.link = {.bandwidth = -1, .enabled = true}},
      {.link = {.alpha = -1ns, .enabled = true}},
      {.link = {.bandwidth = 1e9}},  // not enabled
      {.message_limit = 0},
      {.recorder_directory = "/nowhere/at/all"},
  };
  for (const OpenOptions& one : all) {
    EXPECT_THROW(static_cast<void>(open("local:2", one)), std::invalid_argument)
        << "option set " << &one - all;
  }
}

TEST(CommOpen, GivesTheRanksInOrder) {
  const auto ranks = open("local:3");
  ASSERT_EQ(ranks.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].rank(), rank);
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].size(), 3);
  }
}

}  // namespace open_test
}  // namespace leat::comm
