// Which of CUDA's answers apply to which waiters.
#include <driver_types.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "leat/csp/selector.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"
#include "tests/support/thread_limit.h"

namespace leat::gpu {
namespace cuda_poller_test {

using stand_in::calls;

// The poller has seen that the first record is done when the event is recorded again, by a thread
// that had begun to before the first waiter came. Later waiters wait for the second record.
TEST(CudaPoller, AnAnswerIsNotForWhoHasJoinedSince) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  const Event event(device);
  const support::Gate first(stream);
  event.record(stream);
  const support::Gate second(stream);
  Selector earlier;
  Selector later;
  std::atomic<bool> answered{false};
  std::atomic<bool> joined{false};
  stand_in::before_call("cudaEventRecord", [&] {
    earlier.add(on_done(event));
    stand_in::on_answer("cudaEventQuery", cudaSuccess, [&] {
      answered = true;
      while (!joined) std::this_thread::yield();
    });
    first.open();
    while (!answered) std::this_thread::yield();
  });
  event.record(stream);
  later.add(on_done(event));
  EXPECT_FALSE(later.try_select());
  const auto asked = calls("cudaEventQuery");
  joined = true;
  // It asks again, or else would take what it knows for an answer.
  while (calls("cudaEventQuery") < asked + 2 && !later.try_select()) std::this_thread::yield();
  EXPECT_FALSE(later.try_select());
  second.open();
  EXPECT_EQ(later.select(), 0U);
  EXPECT_EQ(earlier.select(), 0U);
}

TEST(CudaPoller, WithoutAThreadIsAnErrorAfterWhichAnotherWaitMayStartIt) {
  EXPECT_EQ(support::in_child([]() -> std::string {
              const Device device = open("cuda:0");
              const Stream stream(device);
              const Event event(device);
              const support::Gate gate(stream);
              event.record(stream);
              support::allow_threads(false);
              const std::string text = support::text_thrown_by<Error>([&] {
                Selector cases;
                cases.add(on_done(event));
              });
              support::allow_threads(true);
              Selector cases;
              cases.add(on_done(event));
              gate.open();
              cases.select();
              return text.starts_with("leat: cannot start the thread that polls cuda:0: ") ? ""
                                                                                           : text;
            }),
            "");
}

}  // namespace cuda_poller_test
}  // namespace leat::gpu
