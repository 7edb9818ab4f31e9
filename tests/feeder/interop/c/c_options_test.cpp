// The C API: options of prefetchers that came after the first version, and programs that were
// compiled before.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "leat/feeder/interop/c/leat.h"
#include "tests/feeder/interop/c/fixture.h"

namespace leat::feeder::c_api {
namespace c_options_test {

TEST(CApiOptions, AProgramThatKnowsFewerOptionsGetsTheOthersDefaults) {
  constexpr std::size_t kFirst = offsetof(leat_options, packed);
  leat_options options;
  std::memset(&options, 0x5a, sizeof options);
  const std::int32_t untouched = options.packed;
  LEAT_EXPECT_OK(leat_options_init(&options, kFirst));
  EXPECT_EQ(options.size, kFirst);
  EXPECT_EQ(options.packed, untouched) << "it is behind what the program has room for";
  Feed some(8);
  options.batch_size = 4;
  leat_prefetcher* feed = nullptr;
  LEAT_EXPECT_OK(leat_prefetcher_open(some.data, "host", &options, &feed));
  LEAT_EXPECT_OK(leat_prefetcher_close(feed));

  leat_batch* const batch = some.next_batch();
  leat_batch_info info;
  std::memset(&info, 0x5a, sizeof info);
  const std::uint64_t elements = info.elements;
  LEAT_EXPECT_OK(leat_batch_get_info(batch, &info, offsetof(leat_batch_info, elements)));
  EXPECT_EQ(info.samples, 4U);
  EXPECT_EQ(info.elements, elements);
  EXPECT_EQ(Feed::info_of(batch).elements, 0U) << "nothing is packed";
  LEAT_EXPECT_OK(leat_batch_release(batch));

  Numbers numbers;
  leat_function_dataset function = numbers_dataset(numbers, 4);
  function.size = offsetof(leat_function_dataset, length);
  std::memset(&function.length, 0x5a, sizeof function.length);
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_from_function(&function, &data));
  LEAT_EXPECT_OK(leat_dataset_close(data));
}

// Sample i has the tokens i, i, ..., i + 1 of them.
leat_dataset* ragged() {
  static const std::int64_t kLongest = 4;
  static const leat_field kField{"tokens", LEAT_INT32, 1, &kLongest, 1};
  leat_function_dataset function{};
  function.size = sizeof function;
  function.samples = 4;
  function.fields = &kField;
  function.field_count = 1;
  function.never_blocks = 1;
  function.read = [](void*, leat_sample* sample) {
    auto* const tokens = static_cast<std::int32_t*>(sample->fields[0]);
    sample->lengths[0] = sample->index + 1;
    for (std::uint64_t i = 0; i <= sample->index; ++i) {
      tokens[i] = static_cast<std::int32_t>(sample->index);
    }
    return 0;
  };
  function.length = [](void*, std::uint64_t index, std::size_t field) {
    EXPECT_EQ(field, 0U);
    leat_dataset* none = nullptr;
    EXPECT_EQ(leat_dataset_open_mnist("x", 0, &none), LEAT_ERROR_ARGUMENT) << "as in read";
    return static_cast<std::size_t>(index) + 1;
  };
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_from_function(&function, &data));
  return data;
}

TEST(CApiOptions, SamplesArePackedByTheirLengths) {
  const auto packed = [](leat_options& o) {
    o.batch_size = 6;
    o.order = LEAT_ORDER_SEQUENTIAL;
    o.packed = 1;
  };
  const Feed feed(ragged(), packed);
  const std::vector<std::vector<std::int32_t>> want = {{0, 1, 1, 2, 2, 2}, {3, 3, 3, 3}};
  const std::vector<std::vector<std::int32_t>> begins = {{0, 1, 3, 6}, {0, 4}};
  for (std::size_t i = 0; i < 2; ++i) {
    leat_batch* const batch = feed.next_batch();
    const leat_batch_info info = Feed::info_of(batch);
    EXPECT_EQ(info.elements, want[i].size());
    EXPECT_EQ(info.samples, begins[i].size() - 1);
    ASSERT_EQ(info.tensors, 2U);
    const leat_tensor tokens = Feed::tensor_of(batch, 0);
    const leat_tensor offsets = Feed::tensor_of(batch, 1);
    EXPECT_STREQ(offsets.name, "offsets");
    EXPECT_EQ(tokens.shape[0], static_cast<std::int64_t>(want[i].size()));
    EXPECT_EQ(elements_of<std::int32_t>(tokens), want[i]);
    EXPECT_EQ(offsets.shape[0], static_cast<std::int64_t>(begins[i].size()));
    EXPECT_EQ(elements_of<std::int32_t>(offsets), begins[i]);
    LEAT_EXPECT_OK(leat_batch_release(batch));
  }

  const Feed of_few(ragged(), [&](leat_options& o) {
    packed(o);
    o.packed_most_samples = 1;
  });
  leat_batch* batch = nullptr;
  expect_error(leat_prefetcher_next(of_few.feed, &batch), LEAT_ERROR_ENVIRONMENT, "most_samples");
  const auto wraps = [&](leat_options& o) {
    packed(o);
    o.last_batch = LEAT_LAST_BATCH_WRAP;
  };
  feed.refuses(wraps, LEAT_ERROR_ARGUMENT, "packing");
  Feed(8).refuses(packed, LEAT_ERROR_ARGUMENT, "variable length");
}

TEST(CApiOptions, RowsMayBeAsLongAsTheLongestSampleOfTheirBatch) {
  EXPECT_EQ(options_with().pad_to, LEAT_PAD_TO_FIELD);
  const Feed feed(ragged(), [](leat_options& o) {
    o.batch_size = 2;
    o.order = LEAT_ORDER_SEQUENTIAL;
    o.pad_to = LEAT_PAD_TO_BATCH;
  });
  const std::vector<std::vector<std::int32_t>> want = {{0, 0, 1, 1}, {2, 2, 2, 0, 3, 3, 3, 3}};
  for (const std::vector<std::int32_t>& rows : want) {
    leat_batch* const batch = feed.next_batch();
    const leat_tensor tokens = Feed::tensor_of(batch, 0);
    EXPECT_STREQ(tokens.name, "tokens");
    ASSERT_EQ(tokens.ndim, 2);
    EXPECT_EQ(tokens.shape[0], 2);
    EXPECT_EQ(tokens.shape[1], static_cast<std::int64_t>(rows.size() / 2));
    EXPECT_EQ(elements_of<std::int32_t>(tokens), rows);
    LEAT_EXPECT_OK(leat_batch_release(batch));
  }
  feed.refuses([](leat_options& o) { o.pad_to = 2; }, LEAT_ERROR_ARGUMENT,
               "pad_to is 2, which is no leat_pad_to");
  const auto packed = [](leat_options& o) {
    o.pad_to = LEAT_PAD_TO_BATCH;
    o.packed = 1;
  };
  feed.refuses(packed, LEAT_ERROR_ARGUMENT, "packing", "pad_to");
}

TEST(CApiOptions, AnEpochMayBeReadOnceItIsAskedFor) {
  EXPECT_EQ(options_with().read_across_epochs, 1);
  Feed feed(40, [](leat_options& o) { o.read_across_epochs = 0; });
  for (int epoch = 1; epoch < 4; ++epoch) {
    EXPECT_EQ(feed.rest().size(), 10U);
    EXPECT_EQ(feed.numbers.reads.load(), epoch * 40);
  }
  LEAT_EXPECT_OK(leat_prefetcher_start_epoch(feed.feed, 7));
  EXPECT_EQ(feed.numbers.reads.load(), 3 * 40) << "leat_prefetcher_next begins it";
  EXPECT_EQ(feed.next().size(), 4U);
}

TEST(CApiOptions, SlotsAreWatched) {
  for (const std::int32_t check : {LEAT_CHECK_SLOTS_YES, LEAT_CHECK_SLOTS_READ_ONLY}) {
    Feed feed(40, [check](leat_options& o) { o.check_slots = check; });
    leat_batch* batch = feed.next_batch();
    const leat_tensor number = Feed::tensor_of(batch, 0);
    std::memset(number.data, 7, number.bytes);  // while it is held
    LEAT_EXPECT_OK(leat_batch_release(batch));
    leat_status status = LEAT_OK;
    for (int i = 0; i < 9 && status == LEAT_OK; ++i) {
      status = leat_prefetcher_next(feed.feed, &batch);
      if (status == LEAT_OK) LEAT_EXPECT_OK(leat_batch_release(batch));
    }
    if (check == LEAT_CHECK_SLOTS_YES) {
      LEAT_EXPECT_STATUS(status, LEAT_OK);
    } else {
      expect_error(status, LEAT_ERROR_ENVIRONMENT, "\"number\"");
    }
  }
  Feed(8).refuses([](leat_options& o) { o.check_slots = 3; }, LEAT_ERROR_ARGUMENT,
                  "check_slots is 3, which is no leat_check_slots");
}

TEST(CApiOptions, AutotuneHasItsLimits) {
  EXPECT_EQ(options_with().autotune_every, 0U);
  const auto limits = [](std::uint64_t every, std::size_t workers, std::size_t depth) {
    return [=](leat_options& o) {
      o.autotune_every = every;
      o.autotune_max_workers = workers;
      o.autotune_max_prefetch_depth = depth;
    };
  };
  const Feed tuned(8, limits(2, 3, 5));
  tuned.refuses(limits(2, 5000, 5), LEAT_ERROR_ARGUMENT, "max_workers is 5000");
  tuned.refuses(limits(2, 3, 5001), LEAT_ERROR_ARGUMENT, "max_prefetch_depth is 5001");
  const Feed untuned(8, limits(0, 3, 5001));  // they are not looked at
}

TEST(CApiOptions, StatesOfRanksAreMerged) {
  std::multiset<std::int64_t> seen;
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Feed feed(40, [&](leat_options& o) {
      o.rank = rank;
      o.world_size = 2;
    });
    for (std::size_t step = 0; step < 2 + 3 * rank; ++step) {
      for (const std::int64_t sample : feed.next()) seen.insert(sample);
    }
    texts.push_back(feed.state());
  }
  const char* const states[] = {texts[0].c_str(), texts[1].c_str()};
  std::size_t needed = 0;
  LEAT_EXPECT_OK(leat_state_merge(states, 2, nullptr, 0, &needed));
  std::vector<char> merged(needed);
  LEAT_EXPECT_OK(leat_state_merge(states, 2, merged.data(), merged.size(), nullptr));
  Feed rest(40, [&](leat_options& o) { o.resume = merged.data(); });
  for (const auto& batch : rest.rest()) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 40U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 40U);

  expect_error(leat_state_merge(states, 1, nullptr, 0, &needed), LEAT_ERROR_ARGUMENT,
               "states of 1 ranks");
  const char* const damaged[] = {"nonsense", nullptr};
  expect_error(leat_state_merge(damaged, 1, nullptr, 0, &needed), LEAT_ERROR_ENVIRONMENT);
  expect_error(leat_state_merge(damaged + 1, 1, nullptr, 0, &needed), LEAT_ERROR_ARGUMENT, "null");
  expect_error(leat_state_merge(nullptr, 1, nullptr, 0, &needed), LEAT_ERROR_ARGUMENT,
               "states is null");
  expect_error(leat_state_merge(states, 2, merged.data(), 5, &needed), LEAT_ERROR_BUFFER);
}

}  // namespace c_options_test
}  // namespace leat::feeder::c_api
