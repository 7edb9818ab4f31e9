// The C API: datasets, batches, states, statistics.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "leat/feeder/interop/c/leat.h"
#include "tests/feeder/interop/c/fixture.h"

namespace leat::feeder::c_api {
namespace c_api_test {

constexpr const char* kMnist = "examples/data/mnist";
using Batches = std::vector<std::vector<std::int64_t>>;

TEST(CApi, NamesItsVersionStatusesAndTypes) {
  EXPECT_STREQ(leat_version(), "0.1.0");
  EXPECT_STREQ(leat_status_name(LEAT_END_OF_EPOCH), "LEAT_END_OF_EPOCH");
  EXPECT_STREQ(leat_status_name(LEAT_ERROR_INTERNAL), "LEAT_ERROR_INTERNAL");
  EXPECT_STREQ(leat_status_name(99), "?");
  EXPECT_EQ(leat_dtype_size(LEAT_BFLOAT16), 2U);
  EXPECT_STREQ(leat_dtype_name(LEAT_FLOAT64), "float64");
  EXPECT_EQ(leat_dtype_size(LEAT_BOOL), 1U);
  EXPECT_STREQ(leat_dtype_name(LEAT_BOOL), "bool");
  EXPECT_EQ(leat_dtype_size(13), 0U);
  EXPECT_EQ(leat_dtype_size(-1), 0U);
  EXPECT_STREQ(leat_dtype_name(13), "?");
}

// Datasets.

TEST(CApi, MnistIsOpenedAndTold) {
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_open_mnist(kMnist, LEAT_MNIST_TEST, &data));
  std::uint64_t samples = 0;
  LEAT_EXPECT_OK(leat_dataset_size(data, &samples));
  EXPECT_EQ(samples, 10000U);
  const leat_field* fields = nullptr;
  std::size_t count = 0;
  LEAT_EXPECT_OK(leat_dataset_fields(data, &fields, &count));
  ASSERT_EQ(count, 2U);
  EXPECT_STREQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].dtype, LEAT_UINT8);
  ASSERT_EQ(fields[0].ndim, 2);
  EXPECT_EQ(fields[0].shape[1], 28);
  EXPECT_EQ(fields[0].variable_length, 0);
  EXPECT_STREQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].ndim, 0);
  LEAT_EXPECT_OK(leat_dataset_close(data));
}

TEST(CApi, MnistThatCannotBeOpenedIsExplained) {
  leat_dataset* data = nullptr;
  expect_error(leat_dataset_open_mnist("no/such", LEAT_MNIST_TRAIN, &data), LEAT_ERROR_ENVIRONMENT,
               "no/such", "no such directory");
  EXPECT_EQ(data, nullptr);
  expect_error(leat_dataset_open_mnist(nullptr, LEAT_MNIST_TRAIN, &data), LEAT_ERROR_ARGUMENT,
               "directory is null");
  expect_error(leat_dataset_open_mnist(kMnist, 2, &data), LEAT_ERROR_ARGUMENT, "split is 2");
  expect_error(leat_dataset_open_mnist(kMnist, LEAT_MNIST_TRAIN, nullptr), LEAT_ERROR_ARGUMENT,
               "dataset is null");
}

TEST(CApi, ADatasetOfFunctionsIsRefusedWithTheReason) {
  Numbers numbers;
  leat_dataset* data = nullptr;
  const auto refused = [&](auto&& change, auto... parts) {
    leat_function_dataset function = numbers_dataset(numbers, 10);
    std::vector<leat_field> fields(kNumberFields, kNumberFields + 2);
    function.fields = fields.data();
    change(function, fields);
    expect_error(leat_dataset_from_function(&function, &data), LEAT_ERROR_ARGUMENT, parts...);
    EXPECT_EQ(data, nullptr);
  };
  using F = leat_function_dataset&;
  using Fields = std::vector<leat_field>&;
  refused([](F f, Fields) { f.size = 8; }, "leat_function_dataset of 8 bytes");
  refused([](F f, Fields) { f.size = 8000; }, "of 8000 bytes", "0.1.0");
  refused([](F f, Fields) { f.read = nullptr; }, "no read function");
  refused([](F f, Fields) { f.fields = nullptr; }, "no fields");
  refused([](F f, Fields) { f.field_count = 0; }, "no fields");
  refused([](F, Fields s) { s[1].name = nullptr; }, "fields[1] has no name");
  refused([](F, Fields s) { s[1].name = ""; }, "fields[1] has no name");
  refused([](F, Fields s) { s[1].name = "number"; }, "two fields", "\"number\"");
  refused([](F, Fields s) { s[1].dtype = 13; }, "\"pattern\"", "dtype 13");
  refused([](F, Fields s) { s[1].ndim = -1; }, "\"pattern\"", "ndim -1");
  refused([](F, Fields s) { s[1].shape = nullptr; }, "\"pattern\"", "no shape");
  refused([](F, Fields s) { s[0].variable_length = 1; }, "\"number\"", "a scalar");
  const std::int64_t empty = 0;
  refused(
      [&](F, Fields s) {
        s[1].ndim = 1;
        s[1].shape = &empty;
      },
      "\"pattern\"", "extent of 0");
  expect_error(leat_dataset_from_function(nullptr, &data), LEAT_ERROR_ARGUMENT, "function is null");
  EXPECT_EQ(numbers.closes, 0) << "what was refused is still the caller's";
}

TEST(CApi, ADatasetIsClosedOnceItsLastUserIs) {
  Numbers numbers;
  leat_prefetcher* const feed = open_numbers(numbers, 10);
  EXPECT_EQ(numbers.closes, 0);
  leat_batch* batch = nullptr;
  LEAT_EXPECT_OK(leat_prefetcher_next(feed, &batch));
  LEAT_EXPECT_OK(leat_prefetcher_close(feed));
  EXPECT_EQ(numbers.closes, 1);
  EXPECT_EQ(Feed::samples_of(batch).size(), 4U) << "a batch outlives its prefetcher";
  LEAT_EXPECT_OK(leat_batch_release(batch));
}

// Batches.

TEST(CApi, AnEpochHasEverySampleOnceAndEndsThenTheNextBegins) {
  for (const std::int32_t never_blocks : {0, 1}) {
    Feed feed(
        10, [](leat_options& o) { o.workers = 2; }, "host", never_blocks);
    std::uint64_t batches = 0;
    std::uint64_t first_epoch = 7;
    LEAT_EXPECT_OK(leat_prefetcher_plan(feed.feed, &batches, &first_epoch));
    EXPECT_EQ(batches, 3U);
    EXPECT_EQ(first_epoch, 0U);
    Batches orders;
    for (int epoch = 0; epoch < 3; ++epoch) {
      const Batches got = feed.rest();
      ASSERT_EQ(got.size(), 3U);
      EXPECT_EQ(got[2].size(), 2U) << "the last is partial";
      std::vector<std::int64_t>& order = orders.emplace_back();
      for (const auto& batch : got) order.insert(order.end(), batch.begin(), batch.end());
      EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 10U);
    }
    EXPECT_NE(orders[0], orders[1]);
  }
}

TEST(CApi, ATensorIsToldByNumberAndByName) {
  Feed feed(10);
  leat_batch* const batch = feed.next_batch();
  leat_tensor tensor = Feed::tensor_of(batch, 1);
  EXPECT_STREQ(tensor.name, "pattern");
  EXPECT_EQ(tensor.dtype, LEAT_UINT8);
  ASSERT_EQ(tensor.ndim, 3);
  EXPECT_EQ(std::vector(tensor.shape, tensor.shape + 3), (std::vector<std::int64_t>{4, 3, 5}));
  EXPECT_EQ(tensor.bytes, 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 256, 0U);
  const auto* const pattern = static_cast<const std::uint8_t*>(tensor.data);
  const std::vector<std::int64_t> samples = Feed::samples_of(batch);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(pattern[i], samples[i / 15]);
  leat_tensor same{};
  LEAT_EXPECT_OK(leat_batch_tensor_named(batch, "pattern", &same));
  EXPECT_EQ(same.data, tensor.data);

  leat_batch_info info = Feed::info_of(batch);
  EXPECT_EQ(info.samples, 4U);
  EXPECT_EQ(info.rows, 4U);
  EXPECT_EQ(info.epoch, 0U);
  EXPECT_EQ(info.index, 0U);
  EXPECT_EQ(info.step_size, 4U);
  EXPECT_EQ(info.step_shards, 1U);
  EXPECT_EQ(info.tensors, 2U);

  expect_error(leat_batch_tensor(batch, 2, &tensor), LEAT_ERROR_ARGUMENT, "no tensor 2");
  expect_error(leat_batch_tensor_named(batch, "image", &tensor), LEAT_ERROR_ARGUMENT, "\"image\"",
               "number, pattern");
  expect_error(leat_batch_tensor_named(batch, nullptr, &tensor), LEAT_ERROR_ARGUMENT,
               "name is null");
  expect_error(leat_batch_tensor(batch, 0, nullptr), LEAT_ERROR_ARGUMENT, "tensor is null");
  expect_error(leat_batch_get_info(batch, nullptr, sizeof info), LEAT_ERROR_ARGUMENT,
               "info is null");
  expect_error(leat_batch_get_info(batch, &info, 3), LEAT_ERROR_ARGUMENT, "of 3 bytes");
  LEAT_EXPECT_OK(leat_batch_release(batch));
}

TEST(CApi, VariableLengthsComeWithTheirTensor) {
  const std::int64_t shape = 6;
  const leat_field field{"tokens", LEAT_UINT16, 1, &shape, 1};
  leat_function_dataset function{};
  function.size = sizeof function;
  function.samples = 6;
  function.fields = &field;
  function.field_count = 1;
  function.read = [](void*, leat_sample* sample) {
    EXPECT_EQ(sample->lengths[0], 6U);
    sample->lengths[0] = sample->index == 5 ? 7 : sample->index + 1;
    std::memset(sample->fields[0], 1, 2 * (sample->index + 1));
    return 0;
  };
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_from_function(&function, &data));
  const Feed feed(data, [](leat_options& o) {
    o.batch_size = 5;
    o.order = LEAT_ORDER_SEQUENTIAL;
  });
  leat_batch* batch = feed.next_batch();
  EXPECT_EQ(Feed::info_of(batch).tensors, 2U);
  const leat_tensor lengths = Feed::tensor_of(batch, 1);
  EXPECT_STREQ(lengths.name, "tokens.length");
  EXPECT_EQ(elements_of<std::int32_t>(lengths), (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  LEAT_EXPECT_OK(leat_batch_release(batch));
  expect_error(leat_prefetcher_next(feed.feed, &batch), LEAT_ERROR_ENVIRONMENT, "7");  // too long
}

TEST(CApi, AnEpochMayBeLeftForAnother) {
  Feed straight(12);
  const Batches first = straight.rest();
  const Batches second = straight.rest();
  Feed feed(12);
  LEAT_EXPECT_OK(leat_prefetcher_start_epoch(feed.feed, 1));
  EXPECT_EQ(feed.rest(), second);
  LEAT_EXPECT_OK(leat_prefetcher_start_epoch(feed.feed, 0));
  EXPECT_EQ(feed.next(), first[0]);
  LEAT_EXPECT_OK(leat_prefetcher_start_epoch(feed.feed, 0));
  EXPECT_EQ(feed.rest(), first);
  EXPECT_EQ(feed.rest(), second) << "and goes on with the one after it";
}

TEST(CApi, AnEpochWithoutSamplesEndsAtOnce) {
  Feed feed(0);
  EXPECT_TRUE(feed.next().empty());
  expect_error(leat_prefetcher_start_epoch(feed.feed, ~std::uint64_t{0}), LEAT_ERROR_ARGUMENT,
               "there is no epoch 18446744073709551615");
  LEAT_EXPECT_OK(leat_prefetcher_start_epoch(feed.feed, 4));
  EXPECT_TRUE(feed.next().empty());
}

TEST(CApi, RanksShareAStepAndKnowItsSize) {
  std::set<std::int64_t> seen;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Feed feed(6, [&](leat_options& o) {
      o.rank = rank;
      o.world_size = 2;
    });
    leat_batch* const batch = feed.next_batch();
    const leat_batch_info info = Feed::info_of(batch);
    EXPECT_EQ(info.samples, 2U);
    EXPECT_EQ(info.step_size, 4U);
    EXPECT_EQ(info.step_shards, 2U);
    for (const std::int64_t sample : Feed::samples_of(batch)) seen.insert(sample);
    LEAT_EXPECT_OK(leat_batch_release(batch));
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST(CApi, ABatchMayBeReleasedByAnotherThread) {
  Feed feed(400);
  leat_batch* batch = nullptr;
  int batches = 0;
  while (leat_prefetcher_next(feed.feed, &batch) == LEAT_OK) {
    std::thread([batch] { LEAT_EXPECT_OK(leat_batch_release(batch)); }).join();
    ++batches;
  }
  EXPECT_EQ(batches, 100);
}

// State.

TEST(CApi, ARunGoesOnWhereItStood) {
  const Batches whole = Feed(40).rest();
  Batches got;
  std::string state;
  {
    Feed feed(40);
    for (int i = 0; i < 4; ++i) got.push_back(feed.next());
    LEAT_EXPECT_OK(leat_batch_abandon(feed.next_batch()));  // the resumed run has it
    state = feed.state();
  }
  Feed resumed(40, [&](leat_options& o) { o.resume = state.c_str(); });
  for (const auto& batch : resumed.rest()) got.push_back(batch);
  EXPECT_EQ(got, whole);

  std::string late;
  {
    Feed feed(40, [&](leat_options& o) { o.resume = state.c_str(); });
    static_cast<void>(feed.rest());
    static_cast<void>(feed.next());
    late = feed.state();
  }
  Feed later(40, [&](leat_options& o) { o.resume = late.c_str(); });
  std::uint64_t first_epoch = 0;
  LEAT_EXPECT_OK(leat_prefetcher_plan(later.feed, nullptr, &first_epoch));
  EXPECT_EQ(first_epoch, 1U);
}

TEST(CApi, AStateOfAnotherRunIsRefused) {
  const Feed feed(40);
  const std::string state = feed.state();
  const auto resume = [](const char* text) {
    return [text](leat_options& o) {
      o.batch_size = 5;
      o.resume = text;
    };
  };
  feed.refuses(resume(state.c_str()), LEAT_ERROR_ENVIRONMENT, "batch_size 4, not 5");
  // As of a checkpoint of no bytes; null begins anew.
  feed.refuses(resume(""), LEAT_ERROR_ENVIRONMENT, "it is empty");
  feed.refuses(resume("nonsense"), LEAT_ERROR_ENVIRONMENT);
}

TEST(CApi, ATextIsGivenWholeOrNotAtAll) {
  Feed feed(40);
  const std::string state = feed.state();
  std::vector<char> buffer(state.size() + 10, '#');
  std::size_t needed = 0;
  expect_error(leat_prefetcher_state(feed.feed, buffer.data(), state.size(), &needed),
               LEAT_ERROR_BUFFER, "leat_prefetcher_state",
               std::to_string(state.size() + 1).c_str());
  EXPECT_EQ(needed, state.size() + 1);
  EXPECT_EQ(buffer[0], '\0');
  EXPECT_EQ(buffer[1], '#');
  LEAT_EXPECT_OK(leat_prefetcher_state(feed.feed, buffer.data(), needed, nullptr));
  EXPECT_EQ(buffer.data(), state);
  EXPECT_EQ(buffer[needed], '#');
  expect_error(leat_prefetcher_state(feed.feed, nullptr, 5, nullptr), LEAT_ERROR_ARGUMENT,
               "buffer is null");

  std::vector<char> text(4096);
  LEAT_EXPECT_OK(leat_prefetcher_device(feed.feed, text.data(), text.size(), nullptr));
  EXPECT_STREQ(text.data(), "host:0");
  static_cast<void>(feed.rest());
  LEAT_EXPECT_OK(leat_prefetcher_stats_table(feed.feed, text.data(), text.size(), nullptr));
  EXPECT_NE(std::string(text.data()).find("consumer"), std::string::npos);
  LEAT_EXPECT_OK(leat_prefetcher_failures(feed.feed, text.data(), text.size(), &needed));
  EXPECT_EQ(needed, 1U);
}

TEST(CApi, StatsAddUp) {
  Feed feed(80);
  static_cast<void>(feed.rest());
  leat_stats stats{};
  LEAT_EXPECT_OK(leat_prefetcher_stats(feed.feed, &stats, sizeof stats));
  EXPECT_EQ(stats.batches, 20U);
  EXPECT_EQ(stats.workers, 1U);
  EXPECT_EQ(stats.prefetch_depth, 2U);
  EXPECT_EQ(stats.device_slots, 2U);
  EXPECT_GT(stats.batch_bytes, 0);
  EXPECT_NEAR(stats.reader.busy + stats.reader.starved + stats.reader.blocked, 1, 1e-6);
  expect_error(leat_prefetcher_stats(feed.feed, &stats, sizeof stats + 8), LEAT_ERROR_ARGUMENT,
               "leat_stats");
  expect_error(leat_prefetcher_stats(feed.feed, nullptr, sizeof stats), LEAT_ERROR_ARGUMENT,
               "stats is null");
}

}  // namespace c_api_test
}  // namespace leat::feeder::c_api
