// The C API: read functions, and what is said to those who misuse it; threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <future>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/interop/c/calls.h"
#include "leat/feeder/interop/c/leat.h"
#include "leat/gpu/error.h"
#include "tests/feeder/interop/c/fixture.h"

namespace leat::feeder::c_api {
namespace c_api_misuse_test {

using Batches = std::vector<std::vector<std::int64_t>>;

// Read functions.

TEST(CApiMisuse, ASampleThatFailsNamesItselfAndEndsThePrefetcher) {
  for (const bool has_text : {true, false}) {
    Feed feed(40, [](leat_options& o) { o.order = LEAT_ORDER_SEQUENTIAL; });
    feed.numbers.before = [&](leat_sample* sample) {
      if (sample->index != 9) return 0;
      if (has_text) std::memset(sample->error, 'x', sample->error_size);  // not terminated
      return -3;
    };
    EXPECT_EQ(feed.next().size(), 4U);
    EXPECT_EQ(feed.next().size(), 4U);
    leat_batch* batch = nullptr;
    expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ENVIRONMENT,
                 "sample 9 of dataset \"numbers\"", has_text ? "xxx" : "returned -3");
    EXPECT_EQ(batch, nullptr);
    expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ENVIRONMENT, "earlier error");
    EXPECT_NE(feed.state().find(R"("batches":[[0,2]])"), std::string::npos) << feed.state();
  }
}

TEST(CApiMisuse, SamplesThatFailWithinTheBudgetAreLeftOutAndListed) {
  Feed feed(8, [](leat_options& o) {
    o.order = LEAT_ORDER_SEQUENTIAL;
    o.read_failures = 1;
  });
  feed.numbers.before = [](leat_sample* sample) {
    if (sample->index != 5) return 0;
    std::strcpy(sample->error, "it is torn");
    return 1;
  };
  EXPECT_EQ(feed.rest(), (Batches{{0, 1, 2, 3}, {4, 6, 7}}));
  std::vector<char> text(4096);
  LEAT_EXPECT_OK(leat_prefetcher_failures(feed.feed, text.data(), text.size(), nullptr));
  const std::string lines = text.data();
  EXPECT_EQ(lines.find("read epoch=0 batch=1 sample=5 error="), 0U) << lines;
  EXPECT_NE(lines.find("it is torn\n"), std::string::npos) << lines;
  leat_stats stats{};
  LEAT_EXPECT_OK(leat_prefetcher_stats(feed.feed, &stats, sizeof stats));
  EXPECT_EQ(stats.failed_samples, 1U);
}

TEST(CApiMisuse, AReadHasRandomNumbersOfItsSampleAndScratchMemory) {
  const auto random_of = [](std::size_t workers) {
    std::vector<std::uint64_t> random(40);
    Feed feed(40, [&](leat_options& o) {  // after what its reads use
      o.workers = workers;
      o.seed = 5;
    });
    feed.numbers.before = [&](leat_sample* sample) {
      EXPECT_EQ(sample->field_count, 2U);
      EXPECT_EQ(sample->bytes[0], 8U);
      EXPECT_EQ(sample->bytes[1], 15U);
      void* const scratch = leat_sample_scratch(sample, 100000);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch) % 64, 0U);
      std::memset(scratch, 1, 100000);
      EXPECT_EQ(leat_sample_scratch(sample, std::numeric_limits<std::size_t>::max()), nullptr);
      if (sample->epoch == 0) random[sample->index] = leat_sample_random(sample);
      return 0;
    };
    static_cast<void>(feed.rest());
    return random;
  };
  const std::vector<std::uint64_t> random = random_of(1);
  EXPECT_EQ(std::set<std::uint64_t>(random.begin(), random.end()).size(), 40U);
  EXPECT_EQ(random_of(3), random);
  EXPECT_EQ(leat_sample_random(nullptr), 0U);
  EXPECT_EQ(leat_sample_scratch(nullptr, 1), nullptr);
}

TEST(CApiMisuse, AReadMayNotCallBackIntoWhatWaitsForIt) {
  for (const std::int32_t never_blocks : {0, 1}) {
    Feed feed(8, {}, "host", never_blocks);
    feed.numbers.before = [&](leat_sample*) {
      EXPECT_STREQ(leat_error_text(), "") << "of the read before, or the thread's";
      leat_batch* batch = nullptr;
      expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ARGUMENT, "read function");
      expect_error(leat_prefetcher_close(feed.feed), LEAT_ERROR_ARGUMENT, "read function");
      return 0;
    };
    EXPECT_EQ(feed.rest().size(), 2U);
  }
}

TEST(CApiMisuse, WhateverIsThrownBecomesAStatus) {
  const auto thrown = [](const auto& what) {
    return c::call("f", [&](const char*) -> leat_status { throw what; });
  };
  expect_error(thrown(std::bad_alloc()), LEAT_ERROR_MEMORY, "memory is exhausted");
  expect_error(thrown(OutOfMemory(8, "cudaMalloc(8 bytes) on cuda:0", "none is left")),
               LEAT_ERROR_MEMORY, "cudaMalloc(8 bytes) on cuda:0: none is left");
  expect_error(thrown(Error("no luck")), LEAT_ERROR_ENVIRONMENT, "no luck");
  expect_error(thrown(gpu::GpuError(2, "eNoMemory", "malloc", "host:0", "")), LEAT_ERROR_DEVICE,
               "eNoMemory");
  expect_error(thrown(std::length_error("too long")), LEAT_ERROR_ARGUMENT, "too long");
  expect_error(thrown(Cancelled{}), LEAT_ERROR_CANCELLED, "asked to stop");
  expect_error(thrown(std::runtime_error("odd")), LEAT_ERROR_INTERNAL, "odd");
  expect_error(thrown(5), LEAT_ERROR_INTERNAL, "no std::exception");
  expect_error(thrown(std::runtime_error(std::string(5000, 'x'))), LEAT_ERROR_INTERNAL, "xxx");
  EXPECT_EQ(std::strlen(leat_error_text()), 1023U);

  Feed feed(8);  // C++ behind a read function, which should not throw
  feed.numbers.before = [](leat_sample*) -> int { throw 5; };
  leat_batch* batch = nullptr;
  expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ENVIRONMENT, "numbers");
}

TEST(CApiMisuse, ACancelledFiberIsToldAndThePrefetcherIsAsBefore) {
  HeldReads reads;
  Feed feed(8);  // after what its reads use
  feed.numbers.before = reads.before();
  run(
      [&] {
        TaskGroup group;
        group.go([&] {
          leat_batch* batch = nullptr;
          expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_CANCELLED,
                       "asked to stop");
        });
        yield();  // there is one worker: the fiber waits now
        group.stop();
        group.wait();
      },
      {.workers = 1});
  reads.open();
  EXPECT_EQ(feed.rest().size(), 2U);
}

// Misuse.

TEST(CApiMisuse, OptionsThatCannotWorkAreNamed) {
  const Feed some(8);
  const auto refused = [&](auto&& change, auto... parts) {
    some.refuses(change, LEAT_ERROR_ARGUMENT, parts...);
  };
  refused([](leat_options& o) { o.batch_size = 0; }, "batch_size is 0");
  refused([](leat_options& o) { o.workers = 0; }, "workers is 0");
  refused([](leat_options& o) { o.order = 2; }, "order is 2");
  refused([](leat_options& o) { o.last_batch = -1; }, "last_batch is -1");
  refused([](leat_options& o) { o.delivery = 7; }, "delivery is 7");
  refused([](leat_options& o) { o.rank = 1; }, "world_size");
  refused([](leat_options& o) { o.read_failure_rate = 2; }, "read_failures.rate");
  refused([](leat_options& o) { o.max_pinned_bytes = 1; }, "max_pinned_bytes");
  refused([](leat_options& o) { o.size = 0; }, "leat_options of 0 bytes", "0.1.0");
  refused([](leat_options& o) { o.size += 8; }, "leat_options of");
  refused([](leat_options& o) { o.reserved = 1; }, "reserved");
  leat_options options = options_with();
  leat_prefetcher* feed = nullptr;
  expect_error(leat_options_init(nullptr, sizeof options), LEAT_ERROR_ARGUMENT, "options is null");
  expect_error(leat_options_init(&options, 4), LEAT_ERROR_ARGUMENT, "of 4 bytes");
  expect_error(leat_prefetcher_open(some.data, "host", nullptr, &feed), LEAT_ERROR_ARGUMENT,
               "options is null");
  expect_error(leat_prefetcher_open(some.data, "tpu:0", &options, &feed), LEAT_ERROR_ENVIRONMENT,
               "tpu:0");
  expect_error(leat_prefetcher_open(some.data, "host", &options, nullptr), LEAT_ERROR_ARGUMENT,
               "prefetcher is null");
  expect_error(leat_prefetcher_open(nullptr, "host", &options, &feed), LEAT_ERROR_ARGUMENT,
               "leat_dataset is null");
  options.batch_size = std::size_t{1} << 62;
  options.last_batch = LEAT_LAST_BATCH_PAD;
  EXPECT_LT(leat_prefetcher_open(some.data, "host", &options, &feed), 0) << "more than there is";
}

TEST(CApiMisuse, TooManyBatchesAtATimeAreRefused) {
  Feed feed(40, [](leat_options& o) { o.max_leases = 2; });
  leat_batch* const first = feed.next_batch();
  leat_batch* const second = feed.next_batch();
  leat_batch* third = nullptr;
  expect_error(leat_prefetcher_next(feed.feed, &third), LEAT_ERROR_ARGUMENT, "max_leases");
  LEAT_EXPECT_OK(leat_batch_release(first));
  LEAT_EXPECT_OK(leat_batch_release(feed.next_batch()));
  LEAT_EXPECT_OK(leat_batch_release(second));
}

TEST(CApiMisuse, AHandleThatIsNullClosedOrOfAnotherKindIsRefusedByEveryFunction) {
  Feed feed(40);
  leat_batch* const closed_batch = feed.next_batch();
  LEAT_EXPECT_OK(leat_batch_release(closed_batch));
  leat_batch* const batch_in_its_place = feed.next_batch();
  EXPECT_NE(batch_in_its_place, closed_batch);
  leat_prefetcher* closed_feed = nullptr;
  leat_dataset* closed_data = nullptr;
  {
    Feed other(4);
    closed_feed = other.feed;
    closed_data = other.data;
  }
  int on_the_stack = 0;
  for (void* const handle : {static_cast<void*>(nullptr), static_cast<void*>(closed_batch),
                             static_cast<void*>(closed_feed), static_cast<void*>(closed_data),
                             static_cast<void*>(&on_the_stack)}) {
    const char* const why = handle == nullptr ? "is null" : "is not open";
    const auto refused = [&](leat_status status) {
      expect_error(status, LEAT_ERROR_ARGUMENT, why);
    };
    auto* const batch = static_cast<leat_batch*>(handle);
    auto* const prefetcher = static_cast<leat_prefetcher*>(handle);
    auto* const dataset = static_cast<leat_dataset*>(handle);
    leat_tensor tensor{};
    leat_batch_info info{};
    leat_stats stats{};
    leat_batch* next = nullptr;
    const leat_field* fields = nullptr;
    std::size_t size = 0;
    std::uint64_t number = 0;
    const leat_options options = options_with();
    refused(leat_batch_bind(batch, LEAT_STREAM_LEGACY));
    refused(leat_batch_get_info(batch, &info, sizeof info));
    refused(leat_batch_tensor(batch, 0, &tensor));
    refused(leat_batch_tensor_named(batch, "number", &tensor));
    refused(leat_prefetcher_next(prefetcher, &next));
    refused(leat_prefetcher_start_epoch(prefetcher, 0));
    refused(leat_prefetcher_plan(prefetcher, &number, &number));
    refused(leat_prefetcher_state(prefetcher, nullptr, 0, &size));
    refused(leat_prefetcher_stats_table(prefetcher, nullptr, 0, &size));
    refused(leat_prefetcher_failures(prefetcher, nullptr, 0, &size));
    refused(leat_prefetcher_device(prefetcher, nullptr, 0, &size));
    refused(leat_prefetcher_stats(prefetcher, &stats, sizeof stats));
    refused(leat_dataset_size(dataset, &number));
    refused(leat_dataset_fields(dataset, &fields, &size));
    refused(leat_prefetcher_open(dataset, "host", &options, &closed_feed));
    if (handle == nullptr) {  // as free() does
      LEAT_EXPECT_OK(leat_batch_release(batch));
      LEAT_EXPECT_OK(leat_batch_abandon(batch));
      LEAT_EXPECT_OK(leat_prefetcher_close(prefetcher));
      LEAT_EXPECT_OK(leat_dataset_close(dataset));
    } else {
      refused(leat_batch_release(batch));
      refused(leat_batch_abandon(batch));
      refused(leat_prefetcher_close(prefetcher));
      refused(leat_dataset_close(dataset));
    }
  }
  expect_error(leat_prefetcher_next(feed.feed, nullptr), LEAT_ERROR_ARGUMENT, "batch is null");
  expect_error(leat_dataset_size(feed.data, nullptr), LEAT_ERROR_ARGUMENT, "samples is null");
  const leat_field* fields = nullptr;
  expect_error(leat_dataset_fields(feed.data, &fields, nullptr), LEAT_ERROR_ARGUMENT,
               "count is null");
  LEAT_EXPECT_OK(leat_batch_release(batch_in_its_place));
}

TEST(CApiMisuse, TheHostDeviceHasNoStreamsToBind) {
  Feed feed(8);
  leat_batch* const batch = feed.next_batch();
  int stream = 0;
  expect_error(leat_batch_bind(batch, &stream), LEAT_ERROR_DEVICE);
  EXPECT_EQ(Feed::samples_of(batch).size(), 4U) << "and is as before";
  LEAT_EXPECT_OK(leat_batch_release(batch));
}

// Threads.

TEST(CApiMisuse, EachThreadHasItsOwnErrorText) {
  static_cast<void>(leat_dataset_open_mnist(nullptr, 0, nullptr));
  const std::string mine = leat_error_text();
  EXPECT_FALSE(mine.empty());
  std::thread([] {
    EXPECT_STREQ(leat_error_text(), "");
    leat_dataset* data = nullptr;
    static_cast<void>(leat_dataset_open_mnist(nullptr, 0, &data));
    EXPECT_NE(std::string(leat_error_text()).find("directory"), std::string::npos);
  }).join();
  EXPECT_EQ(leat_error_text(), mine);
}

TEST(CApiMisuse, ASecondThreadInNextIsRefusedWhileStateAndStatsAreServed) {
  HeldReads reads;
  Feed feed(40);  // after what its reads use
  feed.numbers.before = reads.before();
  auto first = std::async(std::launch::async, [&] { return feed.next(); });
  reads.await_first();  // the first is in next(), because nothing can be staged
  leat_batch* batch = nullptr;
  expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ARGUMENT, "another thread");
  expect_error(leat_prefetcher_start_epoch(feed.feed, 1), LEAT_ERROR_ARGUMENT, "another thread");
  EXPECT_FALSE(feed.state().empty());
  leat_stats stats{};
  LEAT_EXPECT_OK(leat_prefetcher_stats(feed.feed, &stats, sizeof stats));
  reads.open();
  EXPECT_EQ(first.get().size(), 4U);
}

TEST(CApiMisuse, ClosingEndsANextThatWaitsAndWaitsForTheReads) {
  Numbers numbers;
  HeldReads reads;
  numbers.before = reads.before();
  leat_prefetcher* const feed = open_numbers(numbers, 40);
  auto next = std::async(std::launch::async, [&] {
    leat_batch* batch = nullptr;
    expect_error(leat_prefetcher_next(feed, &batch), LEAT_ERROR_ENVIRONMENT, "was stopped");
    EXPECT_EQ(batch, nullptr);
  });
  reads.await_first();
  auto close = std::async(std::launch::async, [&] { LEAT_EXPECT_OK(leat_prefetcher_close(feed)); });
  next.get();  // though the read goes on
  while (leat_prefetcher_plan(feed, nullptr, nullptr) == LEAT_OK) std::this_thread::yield();
  expect_error(leat_prefetcher_close(feed), LEAT_ERROR_ARGUMENT, "not open");
  EXPECT_EQ(numbers.closes, 0);
  reads.open();
  close.get();  // waits for it
  EXPECT_EQ(numbers.closes, 1);
}

// A scheduler does not see the threads that its fiber waits for.
TEST(CApiMisuse, AFiberThatClosesWaitsForCallsOfThreads) {
  for (int round = 0; round < 100; ++round) {
    Numbers numbers;
    leat_prefetcher* const feed = open_numbers(numbers, 40);
    std::promise<void> begun;
    std::thread user([&] {
      std::size_t calls = 0;
      leat_batch* batch = nullptr;
      for (;;) {
        const leat_status status = leat_prefetcher_next(feed, &batch);
        if (++calls == 3) begun.set_value();
        if (status == LEAT_END_OF_EPOCH) continue;
        if (status != LEAT_OK) {
          EXPECT_GE(calls, 3U) << leat_error_text();
          if (calls < 3) begun.set_value();
          return;
        }
        LEAT_EXPECT_OK(leat_batch_release(batch));
      }
    });
    begun.get_future().wait();
    EXPECT_NO_THROW(run([&] { LEAT_EXPECT_OK(leat_prefetcher_close(feed)); }, {.workers = 1}));
    EXPECT_EQ(numbers.closes, 1) << "it was not waited for";
    user.join();
  }
}

TEST(CApiMisuse, ManyThreadsWithAPrefetcherEachDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int round = 0; round < 5; ++round) {
        Feed feed(16, [](leat_options& o) { o.max_leases = 4; });
        std::vector<leat_batch*> held(4);
        for (leat_batch*& batch : held) batch = feed.next_batch();
        for (leat_batch* const batch : held) {
          EXPECT_EQ(Feed::samples_of(batch).size(), 4U);
          LEAT_EXPECT_OK(leat_batch_release(batch));
          expect_error(leat_batch_release(batch), LEAT_ERROR_ARGUMENT, "not open");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace c_api_misuse_test
}  // namespace leat::feeder::c_api
