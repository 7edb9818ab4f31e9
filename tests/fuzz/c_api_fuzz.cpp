// The C API: programs of up to 60 calls, right and wrong ones. Each call returns a status that it
// may return, with a text if it is an error; no handle is lost, and all memory that a call gives
// can be read.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "leat/feeder/interop/c/leat.h"
#include "leat/feeder/interop/c/sources.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::fuzz;

// What reads the samples. It fails where a bit of `fails` says so.
struct Reading {
  std::uint64_t fails = 0;
};

int read_sample(void* user, leat_sample* sample) {
  for (std::size_t f = 0; f < sample->field_count; ++f) {
    std::memset(sample->fields[f], static_cast<int>(sample->index), sample->bytes[f]);
  }
  static_cast<void>(leat_sample_random(sample));
  if (void* const memory = leat_sample_scratch(sample, sample->index)) {
    std::memset(memory, 1, sample->index);
  }
  return static_cast<int>(static_cast<Reading*>(user)->fails >> sample->index % 64 & 1);
}

class Program {
 public:
  explicit Program(Input input) : numbers_(input), file_(input) {}
  ~Program() {
    for (leat_batch* const batch : batches_) check(leat_batch_release(batch));
    for (leat_prefetcher* const feed : feeds_) check(leat_prefetcher_close(feed));
    for (leat_dataset* const data : datasets_) check(leat_dataset_close(data));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run() {
    for (int calls = 0; calls < 60 && !numbers_.rest().empty(); ++calls) call();
  }

 private:
  // Returns whether the call returned LEAT_OK.
  static bool check(leat_status status) {
    const std::string name = leat_status_name(status);
    require(status != LEAT_ERROR_INTERNAL, std::string("internal: ") + leat_error_text());
    require(name.starts_with("LEAT_"), "status " + std::to_string(status));
    const std::string_view text = leat_error_text();
    require(status >= 0 || (!text.empty() && text.size() < 1024), name + " without a text");
    return status == LEAT_OK;
  }

  template <class Handle>
  Handle* any(const std::vector<Handle*>& handles) {
    return handles.empty() ? nullptr : handles[numbers_.below(handles.size())];
  }
  template <class Handle>
  Handle* take(std::vector<Handle*>& handles) {
    Handle* const found = any(handles);
    std::erase(handles, found);
    return found;
  }

  void call() {
    switch (numbers_.below(12)) {
      case 0: open_function(); break;
      case 1: open_file(); break;
      case 2: open_feed(); break;
      case 3:
      case 4:
      case 5: next(); break;
      case 6: look_at_batch(); break;
      case 7: check(leat_batch_release(take(batches_))); break;
      case 8: check(leat_batch_abandon(take(batches_))); break;
      case 9: texts(); break;
      case 10: check(leat_prefetcher_start_epoch(any(feeds_), numbers_.take(1))); break;
      default: close(); break;
    }
  }

  void open_function() {
    std::array<std::array<std::int64_t, 3>, 3> shapes{};
    std::array<leat_field, 3> fields{};
    constexpr std::array<const char*, 4> kNames = {"a", "b", "c", nullptr};
    for (std::size_t f = 0; f < fields.size(); ++f) {
      for (std::int64_t& extent : shapes[f]) {
        extent = static_cast<std::int64_t>(numbers_.below(9)) - (numbers_.below(16) == 0 ? 9 : 0);
      }
      fields[f] = {.name = kNames[numbers_.below(8) == 0 ? numbers_.below(4) : f],
                   .dtype = static_cast<std::int32_t>(numbers_.below(13)),
                   .ndim = static_cast<std::int32_t>(numbers_.below(4)),
                   .shape = shapes[f].data(),
                   .variable_length = static_cast<std::int32_t>(numbers_.below(2))};
    }
    reading_.fails = numbers_.below(3) == 0 ? numbers_.take(8) : 0;
    leat_function_dataset given{};
    given.size = sizeof given;
    given.samples = numbers_.below(200);
    given.fields = fields.data();
    given.field_count = numbers_.below(4);
    given.read = numbers_.below(16) == 0 ? nullptr : read_sample;
    given.user = &reading_;
    given.never_blocks = static_cast<std::int32_t>(numbers_.below(2));
    keep(leat_dataset_from_function(&given, &made_data_), made_data_, datasets_);
  }

  void open_file() {
    const std::string path = file_.path().string();
    leat_token_shards_options tokens{};
    leat_fixed_records_options records{};
    const std::int64_t extent = static_cast<std::int64_t>(numbers_.below(20));
    const leat_field field{"x", LEAT_UINT8, 1, &extent, 0};
    check(leat_token_shards_options_init(&tokens, sizeof tokens));
    check(leat_fixed_records_options_init(&records, sizeof records));
    tokens.sequence_length = numbers_.below(32);
    tokens.dtype = static_cast<std::int32_t>(numbers_.below(13));
    records.fields = &field;
    records.field_count = numbers_.below(2);
    leat_status status = LEAT_OK;
    switch (numbers_.below(5)) {
      case 0: status = leat_dataset_open_token_shards(path.c_str(), &tokens, &made_data_); break;
      case 1: status = leat_dataset_open_fixed_records(path.c_str(), &records, &made_data_); break;
      case 2: status = leat_dataset_open_web(path.c_str(), nullptr, &made_data_); break;
      case 3: status = leat_dataset_open_cifar10_files(path.c_str(), 4, &made_data_); break;
      default: status = leat_dataset_open_mnist(path.c_str(), 0, &made_data_); break;
    }
    keep(status, made_data_, datasets_);
  }

  void open_feed() {
    leat_options options;
    check(leat_options_init(&options, sizeof options));
    options.batch_size = numbers_.below(20);
    options.prefetch_depth = numbers_.below(4);
    options.max_leases = numbers_.below(4);
    options.workers = numbers_.below(4);
    options.seed = numbers_.take(1);
    options.order = static_cast<std::int32_t>(numbers_.below(3));
    options.last_batch = static_cast<std::int32_t>(numbers_.below(5));
    options.delivery = static_cast<std::int32_t>(numbers_.below(3));
    options.rank = numbers_.below(3);
    options.world_size = numbers_.below(3);
    options.read_failures = numbers_.below(100);
    options.packed = numbers_.below(4) == 0;
    options.check_slots = static_cast<std::int32_t>(numbers_.below(4));
    const std::uint64_t resume = numbers_.below(8);
    if (resume > 5) options.resume = state_.c_str();
    if (feeds_.size() == 3) return;
    leat_prefetcher* feed = nullptr;
    const leat_status status = leat_prefetcher_open(any(datasets_), "host", &options, &feed);
    keep(status, feed, feeds_);
  }

  void next() {
    leat_batch* batch = nullptr;
    const leat_status status = leat_prefetcher_next(any(feeds_), &batch);
    require((status == LEAT_OK) == (batch != nullptr), "a batch with an error, or none with OK");
    if (check(status)) batches_.push_back(batch);
  }

  void look_at_batch() {
    leat_batch* const batch = any(batches_);
    leat_batch_info info{};
    if (!check(leat_batch_get_info(batch, &info, sizeof info))) return;
    for (std::uint64_t i = 0; i <= info.tensors; ++i) {
      leat_tensor tensor{};
      const bool is_there = check(leat_batch_tensor(batch, i, &tensor));
      require(is_there == (i < info.tensors), "more or fewer tensors than told");
      if (!is_there) continue;
      std::size_t bytes = leat_dtype_size(tensor.dtype);
      for (std::int32_t d = 0; d < tensor.ndim; ++d) {
        bytes *= static_cast<std::size_t>(tensor.shape[d]);
      }
      require(bytes == tensor.bytes, "a tensor of another size than its shape");
      unsigned sum = 0;
      for (std::size_t b = 0; b < bytes; ++b) {
        sum += static_cast<const std::uint8_t*>(tensor.data)[b];
      }
      static_cast<void>(*static_cast<volatile unsigned*>(&sum));
      require(check(leat_batch_tensor_named(batch, tensor.name, &tensor)), "a tensor without name");
    }
  }

  void texts() {
    leat_prefetcher* const feed = any(feeds_);
    std::vector<char> buffer(numbers_.below(1200));
    std::size_t needed = 0;
    const auto text = [&](leat_status status) {
      if (!check(status)) return;
      require(needed == std::strlen(buffer.data()) + 1, "a text of another length than told");
    };
    switch (numbers_.below(6)) {
      case 0:
        if (leat_prefetcher_state(feed, buffer.data(), buffer.size(), &needed) == LEAT_OK &&
            !buffer.empty()) {
          state_ = buffer.data();
        }
        break;
      case 1:
        if (!buffer.empty()) {
          text(leat_prefetcher_stats_table(feed, buffer.data(), buffer.size(), &needed));
        }
        break;
      case 2:
        if (!buffer.empty()) {
          text(leat_prefetcher_failures(feed, buffer.data(), buffer.size(), &needed));
        }
        break;
      case 3: {
        const std::array<const char*, 2> states = {state_.c_str(), state_.c_str()};
        check(leat_state_merge(states.data(), numbers_.below(3), buffer.data(), buffer.size(),
                               &needed));
        break;
      }
      case 4: {
        leat_stats stats{};
        check(leat_prefetcher_stats(feed, &stats, sizeof stats));
        break;
      }
      default: check(leat_prefetcher_plan(feed, nullptr, nullptr)); break;
    }
  }

  void close() {
    if (numbers_.below(2) == 0) {
      check(leat_dataset_close(take(datasets_)));
    } else {
      leat_prefetcher* const feed = take(feeds_);
      check(leat_prefetcher_close(feed));
      if (feed != nullptr) {
        require(leat_prefetcher_close(feed) == LEAT_ERROR_ARGUMENT, "a handle is closed twice");
      }
    }
  }

  template <class Handle>
  static void keep(leat_status status, Handle* made, std::vector<Handle*>& handles) {
    require((status == LEAT_OK) == (made != nullptr), "a handle with an error, or none with OK");
    if (check(status)) handles.push_back(made);
  }

  Numbers numbers_;
  MemoryFile file_;
  Reading reading_;
  leat_dataset* made_data_ = nullptr;
  std::vector<leat_dataset*> datasets_;
  std::vector<leat_prefetcher*> feeds_;
  std::vector<leat_batch*> batches_;
  std::string state_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Program({data, size}).run();
  return 0;
}
