// Which of several records is an event's latest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace cuda_records_test {

// The last record on the stream is the last that is enqueued there at all. Operations take a while,
// so that a waiter for an earlier record returns before the others have run.
TEST(CudaRecords, OfSeveralThreadsAtOnceTheLatestIsTheLastOnTheStream) {
  constexpr int kThreads = 8;
  const Device device = open("cuda:0");
  const Stream stream(device);
  const Event event(device);
  stand_in::delay_operations(std::chrono::microseconds(20));
  for (int round = 0; round < 100; ++round) {
    std::array<std::atomic<bool>, kThreads> ran{};
    const support::Gate gate(stream);
    support::on_plain_threads(kThreads, [&](int thread) {
      std::atomic<bool>& mine = ran[static_cast<std::size_t>(thread)];
      stream.launch_host([&mine] { mine = true; });
      event.record(stream);
    });
    gate.open();
    event.sync();
    EXPECT_TRUE(std::ranges::all_of(ran, [](const auto& one) { return one.load(); }));
    stream.sync();
  }
}

}  // namespace cuda_records_test
}  // namespace leat::gpu
