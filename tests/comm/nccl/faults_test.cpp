// NCCL that fails, or never ends: an error on every rank, and nothing that hangs or is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace nccl_faults_test {

using namespace std::chrono_literals;

/// Calls body on each of two ranks, a thread each. Returns what their CommErrors say, by rank;
/// empty: none.
std::vector<std::string> errors_of(const std::function<void(Communicator& me)>& body,
                                   const OpenOptions& options = {}) {
  std::vector<Communicator> ranks = open("nccl:2", options);
  std::vector<std::string> errors(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i, me = std::move(ranks[i])]() mutable {
      try {
        body(me);
      } catch (const CommError& error) {
        errors[i] = error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << i << " had another error: " << error.what();
      }
    });
  }
  threads.clear();
  return errors;
}

/// Weighted sums, one of them with a rank that is empty, an uneven scatter, and a message.
void train(Communicator& me) {
  const gpu::Device device = *me.device();
  gpu::DeviceBuffer memory(device, 7 * sizeof(float));
  const gpu::Stream stream(device);
  const Elements all(memory.span(), DType::kFloat32);
  {
    GradientExchange exchange(me, {{"w", memory.subspan(0, 12)}, {"v", memory.subspan(12, 16)}},
                              {.device = device});
    for (int step = 0; step < 2; ++step) {
      exchange.begin_step(1);
      exchange.ready(1, stream);
      if (me.rank() == 0) exchange.ready(0, stream);
      exchange.end_backward();
      exchange.await_all(stream);
    }
  }
  const auto [first, second] = chunk_of(7, me.rank(), 2);
  const Elements chunk(memory.subspan(4 * first, 4 * (second - first)), DType::kFloat32);
  ConstElements in(all.data, all.count, all.dtype);
  in.on_device = true;
  me.reduce_scatter(in, chunk).await();
  if (me.rank() == 0) {
    me.send(in, 1).await();
  } else {
    me.recv(all, 0).await();
  }
}

TEST(NcclFaults, WithoutFaultsNothingFails) {
  for (const std::string& error : errors_of(train)) EXPECT_EQ(error, "");
}

TEST(NcclFaults, EachCallThatFailsIsAnErrorOnEveryRank) {
  std::uint64_t at_the_end = 0;
  for (std::uint64_t call = 1;; ++call) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "call " << call);
    ASSERT_LT(call, 1'000U);
    nccl_stand_in::fail_call(call);
    const std::vector<std::string> errors = errors_of(train);
    if (!nccl_stand_in::has_failed()) {
      EXPECT_GT(call, 40U);  // of which a training has more
      EXPECT_LT(at_the_end, call / 2);
      nccl_stand_in::fail_call(0);
      return;
    }
    // A communicator that cannot be ended is no error of its operations, which have ended; only who
    // has others under way hears of it.
    const auto is_of_no_operation = [](const std::string& error) {
      return error.empty() || error.find("failed on rank 0: ") != std::string::npos ||
             error.find("failed on rank 1: ") != std::string::npos;
    };
    if (std::ranges::all_of(errors, is_of_no_operation)) {
      ++at_the_end;
      continue;
    }
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      leat::support::expect_contains(
          errors[rank], {"leat: rank " + std::to_string(rank) + ": NCCL failed on rank", "in ",
                         "unhandled system error: the stand-in was told that"});
    }
    if (HasFailure()) return;
  }
}

TEST(NcclFaults, AnOperationThatNeverEndsIsAnErrorAtTheDeadlineWithItsTensor) {
  nccl_stand_in::never_end(3);
  const std::vector<std::string> errors = errors_of(train, {.deadline = 300ms});
  for (const std::string& error : errors) {
    leat::support::expect_contains(error, {"all_reduce of ", "float32 (number ", "in device memory",
                                           "of tensor ", "longer than the deadline of 300 ms"});
  }
}

TEST(NcclFaults, ACommunicatorThatNeverComesIsAnErrorAtTheDeadline) {
  nccl_stand_in::never_init();
  const std::vector<std::string> errors = errors_of(train, {.deadline = 200ms});
  for (const std::string& error : errors) {
    leat::support::expect_contains(error, {"all_reduce of ", "longer than the deadline of 200 ms"});
  }
}

TEST(NcclFaults, AnErrorThatNcclTellsLaterIsToldAtOnce) {
  nccl_stand_in::never_end(3, /*with_error=*/true);
  const std::vector<std::string> errors = errors_of(train);
  for (const std::string& error : errors) {
    leat::support::expect_contains(
        error, {"NCCL failed on rank", " on cuda:",  // of it, or of a later call
                "the stand-in's remote process has ended"});
  }
}

TEST(NcclFaults, ARankThatIsLateIsNamedBeforeNcclIsCalled) {
  std::atomic<bool> is_over{false};
  const std::vector<std::string> errors = errors_of(
      [&](Communicator& me) {
        gpu::DeviceBuffer memory(*me.device(), 8);
        if (me.rank() == 1) {
          is_over.wait(false);
          me.barrier().await();
        }
        struct Over {
          ~Over() {
            over.store(true);
            over.notify_all();
          }
          std::atomic<bool>& over;
        } const over{is_over};
        me.all_reduce(Elements(memory.span(), DType::kFloat32)).await();
      },
      {.deadline = 200ms});
  for (const std::string& error : errors) {
    leat::support::expect_contains(error, {"waits for rank 1", "in device memory"});
  }
  EXPECT_EQ(nccl_stand_in::operations(), 0U);
}

TEST(NcclFaults, ADeviceThatFailsIsAnErrorOnEveryRank) {
  for (std::uint64_t operation = 1; operation <= 6; ++operation) {
    leat::stand_in::fail_device(1, cudaErrorLaunchFailure, operation);
    bool failed = false;
    const std::vector<std::string> errors = errors_of([&](Communicator& me) {
      try {
        train(me);
      } catch (const gpu::GpuError& error) {
        EXPECT_EQ(me.rank(), 1);
        me.abort(error.what());
        me.barrier().await();
      }
    });
    for (const std::string& error : errors) failed = failed || !error.empty();
    EXPECT_TRUE(failed);
    leat::stand_in::wait_for_destroyed_streams();
    leat::stand_in::reset();
    leat::stand_in::set_devices(4);
  }
}

TEST(NcclFaults, AnAbortEndsWhatIsUnderWay) {
  nccl_stand_in::never_end(1);
  const std::vector<std::string> errors = errors_of([](Communicator& me) {
    gpu::DeviceBuffer memory(*me.device(), 8);
    Completion sum = me.all_reduce(Elements(memory.span(), DType::kFloat32));
    while (nccl_stand_in::operations() < 2) std::this_thread::yield();
    if (me.rank() == 1) me.abort("the disk is full");
    sum.await();
  });
  for (const std::string& error : errors) {
    leat::support::expect_contains(error, {"rank 1 aborted: the disk is full"});
  }
}

}  // namespace nccl_faults_test
}  // namespace leat::comm
