// A dataset of C functions whose samples follow from their numbers, and handles that close
// themselves.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <initializer_list>
#include <string>
#include <vector>

#include "leat/feeder/interop/c/leat.h"

namespace leat::feeder::c_api {

/// What the functions below get as `user`.
struct Numbers {
  std::function<int(leat_sample*)> before = {};  // called first; what it returns, unless 0, fails
  std::atomic<int> reads = 0;
  std::atomic<int> closes = 0;
};

/// Holds up every read until it is opened; tells when the first has begun.
class HeldReads {
 public:
  /// For Numbers::before.
  std::function<int(leat_sample*)> before() {
    return [this](leat_sample*) {
      if (!told_.test_and_set()) begun_.set_value();
      opened_.wait();
      return 0;
    };
  }
  void await_first() { begun_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::atomic_flag told_;
  std::promise<void> begun_;
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

inline int read_number(void* user, leat_sample* sample) {
  auto& numbers = *static_cast<Numbers*>(user);
  ++numbers.reads;
  if (numbers.before) {
    if (const int failed = numbers.before(sample); failed != 0) return failed;
  }
  *static_cast<std::int64_t*>(sample->fields[0]) = static_cast<std::int64_t>(sample->index);
  std::memset(sample->fields[1], static_cast<int>(sample->index % 251), sample->bytes[1]);
  return 0;
}

inline void close_numbers(void* user) { ++static_cast<Numbers*>(user)->closes; }

inline constexpr std::int64_t kPatternShape[] = {3, 5};
inline constexpr leat_field kNumberFields[] = {{"number", LEAT_INT64, 0, nullptr, 0},
                                               {"pattern", LEAT_UINT8, 2, kPatternShape, 0}};

inline leat_function_dataset numbers_dataset(Numbers& numbers, std::uint64_t samples) {
  leat_function_dataset made{};
  made.size = sizeof made;
  made.name = "numbers";
  made.samples = samples;
  made.fields = kNumberFields;
  made.field_count = 2;
  made.read = read_number;
  made.user = &numbers;
  made.close = close_numbers;
  return made;
}

/// Checks that the status is `want`, and tells the error's text where it is not.
#define LEAT_EXPECT_STATUS(call, want)                                           \
  do {                                                                           \
    const leat_status got_status = (call);                                       \
    EXPECT_EQ(leat_status_name(got_status), std::string(leat_status_name(want))) \
        << (got_status < 0 ? leat_error_text() : "");                            \
  } while (false)

#define LEAT_EXPECT_OK(call) LEAT_EXPECT_STATUS(call, LEAT_OK)

/// Checks that the call fails with `want`, and that the text has each of the parts.
template <class... Parts>
void expect_error(leat_status got, leat_status want, Parts... parts) {
  const std::string text = leat_error_text();
  EXPECT_EQ(leat_status_name(got), std::string(leat_status_name(want))) << text;
  for (const char* const part : std::initializer_list<const char*>{parts...}) {
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
  }
}

/// Batches of 4, and what `set` says.
inline leat_options options_with(const std::function<void(leat_options&)>& set = {}) {
  leat_options options;
  LEAT_EXPECT_OK(leat_options_init(&options, sizeof options));
  options.batch_size = 4;
  if (set) set(options);
  return options;
}

/// A prefetcher of so many: the only user of its dataset, which closes with it.
inline leat_prefetcher* open_numbers(Numbers& numbers, std::uint64_t samples) {
  leat_function_dataset function = numbers_dataset(numbers, samples);
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_from_function(&function, &data));
  const leat_options options = options_with();
  leat_prefetcher* feed = nullptr;
  LEAT_EXPECT_OK(leat_prefetcher_open(data, "host", &options, &feed));
  LEAT_EXPECT_OK(leat_dataset_close(data));
  return feed;
}

/// A prefetcher of them.
class Feed {
 public:
  explicit Feed(std::uint64_t samples, const std::function<void(leat_options&)>& set = {},
                const char* device = "host", std::int32_t never_blocks = 0) {
    leat_function_dataset function = numbers_dataset(numbers, samples);
    function.never_blocks = never_blocks;
    LEAT_EXPECT_OK(leat_dataset_from_function(&function, &data));
    const leat_options options = options_with(set);
    LEAT_EXPECT_OK(leat_prefetcher_open(data, device, &options, &feed));
  }
  /// Of another dataset, which it takes.
  Feed(leat_dataset* taken, const std::function<void(leat_options&)>& set) : data(taken) {
    const leat_options options = options_with(set);
    LEAT_EXPECT_OK(leat_prefetcher_open(data, "host", &options, &feed));
  }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  ~Feed() {
    leat_prefetcher_close(feed);
    leat_dataset_close(data);
  }

  /// Checks that its dataset cannot be read so, and what is said.
  template <class... Parts>
  void refuses(const std::function<void(leat_options&)>& set, leat_status status,
               Parts... parts) const {
    const leat_options options = options_with(set);
    leat_prefetcher* other = nullptr;
    expect_error(leat_prefetcher_open(data, "host", &options, &other), status, parts...);
    EXPECT_EQ(other, nullptr);
  }
  /// A batch that there must be, to be released.
  [[nodiscard]] leat_batch* next_batch() const {
    leat_batch* batch = nullptr;
    LEAT_EXPECT_OK(leat_prefetcher_next(feed, &batch));
    return batch;
  }
  static leat_batch_info info_of(leat_batch* batch) {
    leat_batch_info info{};
    LEAT_EXPECT_OK(leat_batch_get_info(batch, &info, sizeof info));
    return info;
  }
  static leat_tensor tensor_of(leat_batch* batch, std::size_t index) {
    leat_tensor tensor{};
    LEAT_EXPECT_OK(leat_batch_tensor(batch, index, &tensor));
    return tensor;
  }
  /// The next batch's samples; empty at the epoch's end. Releases it.
  std::vector<std::int64_t> next() {
    leat_batch* batch = nullptr;
    const leat_status status = leat_prefetcher_next(feed, &batch);
    if (status != LEAT_OK) {
      LEAT_EXPECT_STATUS(status, LEAT_END_OF_EPOCH);
      return {};
    }
    std::vector<std::int64_t> samples = samples_of(batch);
    LEAT_EXPECT_OK(leat_batch_release(batch));
    return samples;
  }
  static std::vector<std::int64_t> samples_of(leat_batch* batch) {
    leat_tensor number{};
    LEAT_EXPECT_OK(leat_batch_tensor_named(batch, "number", &number));
    if (number.data == nullptr) return {};
    const auto* const first = static_cast<const std::int64_t*>(number.data);
    return {first, first + number.shape[0]};
  }
  /// What is left of the epoch.
  std::vector<std::vector<std::int64_t>> rest() {
    std::vector<std::vector<std::int64_t>> batches;
    for (auto batch = next(); !batch.empty(); batch = next()) batches.push_back(batch);
    return batches;
  }
  [[nodiscard]] std::string state() const {
    std::string text(16, '?');
    std::size_t needed = 0;
    leat_status status = LEAT_ERROR_BUFFER;
    // Another thread may begin an epoch meanwhile.
    while ((status = leat_prefetcher_state(feed, text.data(), text.size(), &needed)) ==
           LEAT_ERROR_BUFFER) {
      text.assign(needed, '?');
    }
    LEAT_EXPECT_OK(status);
    text.resize(needed);
    text.pop_back();  // the null byte
    return text;
  }

  Numbers numbers;
  leat_dataset* data = nullptr;
  leat_prefetcher* feed = nullptr;
};

/// All elements of a tensor, in order.
template <class T>
std::vector<T> elements_of(const leat_tensor& tensor) {
  const auto* const first = static_cast<const T*>(tensor.data);
  return {first, first + tensor.bytes / sizeof(T)};
}

}  // namespace leat::feeder::c_api
