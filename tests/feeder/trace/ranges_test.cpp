// What a profiler is told of batches. NVTX asks the environment for a profiler once in a process,
// so each test runs in a process of its own, with the recorder as the profiler.
#include "leat/feeder/trace/ranges.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/batch_source.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/feeder/trace/recorder.h"

namespace leat::feeder {
namespace ranges_test {

using support::Numbers;

constexpr const char* kProfiler = "NVTX_INJECTION64_PATH";

// Runs the test that calls it again, in a process that has the recorder as its profiler. Returns
// how that has ended.
int run_again(const std::filesystem::path& recorder) {
  std::vector<std::string> environment{std::string(kProfiler) + "=" + recorder.string()};
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("GTEST_")) environment.emplace_back(*one);  // a shard
  }
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::vector<std::string> arguments{
      "ranges", std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name()};
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  const std::vector<char*> with = pointers(arguments);
  const std::vector<char*> in = pointers(environment);
  const pid_t child = fork();
  if (child == 0) {
    execve("/proc/self/exe", with.data(), in.data());
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class ProfilerRanges : public testing::Test {
 protected:
  // Calls `body`, in the process of its own.
  static void recorded(const std::function<void()>& body) {
    const std::filesystem::path recorder =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libleat_recorder.so";
    if (!std::filesystem::exists(recorder)) GTEST_SKIP() << "built without NVTX";
    const char* const profiler = std::getenv(kProfiler);
    if (profiler == nullptr || profiler != recorder) {
      EXPECT_EQ(run_again(recorder), 0);
      return;
    }
    ASSERT_NE(profiler_ranges(), nullptr);
    void* const library = dlopen(recorder.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    ranges_of = reinterpret_cast<RecordedRanges*>(dlsym(library, "leat_recorded"));
    ASSERT_NE(ranges_of, nullptr);
    body();
  }

  // In the order in which they began.
  static std::vector<RecordedRange> ranges() {
    std::vector<RecordedRange> all(1000);
    const std::size_t count = ranges_of(all.data(), all.size());
    EXPECT_LE(count, all.size()) << "a range was ended that was not open, or there are too many";
    all.resize(std::min(count, all.size()));
    return all;
  }
  static std::vector<RecordedRange> named(std::string_view name) {
    std::vector<RecordedRange> all = ranges();
    std::erase_if(all, [&](const RecordedRange& one) { return one.name.data() != name; });
    return all;
  }
  static std::size_t open() {
    return static_cast<std::size_t>(std::ranges::count(ranges(), 0U, &RecordedRange::end));
  }
  // How many there are of each name that begins so.
  static std::map<std::string, int> counts(std::string_view prefix) {
    std::map<std::string, int> counts;
    for (const RecordedRange& one : ranges()) {
      const std::string name = one.name.data();
      if (name.starts_with(prefix)) ++counts[name];
    }
    return counts;
  }
  static std::map<std::string, int> each(const std::string& prefix, int from, int to, int times) {
    std::map<std::string, int> counts;
    for (int i = from; i < to; ++i) counts[prefix + std::to_string(i)] = times;
    return counts;
  }

 private:
  inline static RecordedRanges* ranges_of = nullptr;
};

TEST_F(ProfilerRanges, EachBatchIsReadThenCopiedThenAStep) {
  recorded([] {
    run([] {
      NumbersFeed feed({.size = 48}, {.batch_size = 4, .workers = 3, .read_across_epochs = false});
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (Lease& batch : feed.epoch(epoch)) feed.launch_check(batch);
      }
      feed.stream.sync();
    });
    EXPECT_EQ(ranges().size(), 2U * 3 * 12);
    EXPECT_EQ(open(), 0U);
    for (int i = 0; i < 12; ++i) {
      const std::string number = std::to_string(i);
      const auto reads = named("leat read " + number);
      const auto copies = named("leat copy " + number);
      const auto steps = named("leat step " + number);
      ASSERT_EQ(reads.size(), 2U);
      ASSERT_EQ(copies.size(), 2U);
      ASSERT_EQ(steps.size(), 2U);
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_LT(reads[epoch].end, copies[epoch].begin);
        EXPECT_LT(copies[epoch].end, steps[epoch].begin);
      }
    }
  });
}

TEST_F(ProfilerRanges, AnEpochThatIsLeftHasTheStepsThatWereHandedOut) {
  recorded([] {
    run([] {
      NumbersFeed feed({.size = 40});
      for (Lease& batch : feed.epoch(0)) {
        if (batch.index() == 2) break;
      }
      EXPECT_EQ(counts("leat step "), each("leat step ", 0, 3, 1));
      EXPECT_EQ(count_samples(feed.epoch(1)), 40U);
    });
    auto steps = each("leat step ", 0, 10, 1);
    for (int i = 0; i < 3; ++i) ++steps["leat step " + std::to_string(i)];
    EXPECT_EQ(counts("leat step "), steps);
    EXPECT_EQ(open(), 0U);
  });
}

TEST_F(ProfilerRanges, AStepEndsWithItsLeaseAlsoAfterThePrefetcher) {
  recorded([] {
    const Numbers data({.size = 40});
    std::optional<Lease> first;
    std::optional<Lease> second;
    {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .max_leases = 2});
      first = feed.next();
      second = feed.next();
    }
    EXPECT_EQ(open(), 2U);
    second.reset();
    EXPECT_EQ(open(), 1U);
    EXPECT_NE(named("leat step 1").at(0).end, 0U);
    const std::size_t before = ranges().size();
    first.reset();
    EXPECT_EQ(open(), 0U);
    EXPECT_EQ(ranges().size(), before);
  });
}

TEST_F(ProfilerRanges, AReadThatThrowsOrIsCancelledEnds) {
  recorded([] {
    run([] {
      NumbersFeed feed(
          {.size = 40, .on_read = failing_reads([](std::uint64_t i) { return i == 9; }, "a cut")},
          {.batch_size = 4, .order = Order::kSequential});
      EXPECT_THROW(count_samples(feed.epoch(0)), Error);
    });
    EXPECT_EQ(open(), 0U);
    EXPECT_EQ(counts("leat step "), each("leat step ", 0, 2, 1));
    EXPECT_EQ(counts("leat copy "), each("leat copy ", 0, 2, 1));
    EXPECT_EQ(named("leat read 2").size(), 1U);

    run([] {
      Channel<int> read(1);
      Channel<int> never(1);
      NumbersFeed feed({.size = 4, .on_read = [&](std::uint64_t) {
                          read.send(0);
                          never.recv();
                        }});
      feed.start(0);
      read.recv();
      EXPECT_EQ(open(), 1U);
    });
    EXPECT_EQ(open(), 0U);
    EXPECT_EQ(named("leat read 0").size(), 2U);
  });
}

// Calls a function for each batch; each reader is asked for two at a time.
class Source : public BatchSource {
 public:
  explicit Source(std::function<void(BatchFill&)> fills) : fills_(std::move(fills)) {}
  std::string_view name() const noexcept override { return "a source"; }
  std::size_t requests() const noexcept override { return 2; }
  void fill(BatchFill& batch) const override { fills_(batch); }

 private:
  const std::function<void(BatchFill&)> fills_;
};

TEST_F(ProfilerRanges, AReadOfASourceLastsFromTheRequestToTheAnswer) {
  recorded([] {
    run([] {
      Channel<int> second(1);
      const Source source([&](BatchFill& batch) {
        batch.asked();
        if (batch.index() == 0) second.recv();  // answers when the second request is there
        if (batch.index() == 1) {
          EXPECT_EQ(open(), 2U);
          second.send(0);
        }
        if (batch.index() == 2) batch.fail("no such key");
        batch.grow(256);
        batch.filled({.layout = layout_of({}), .rows = 1, .opaque = {}, .failed = {}, .times = {}});
      });
      const gpu::Device device = gpu::open("host");
      Prefetcher feed(source, device, {.batch_size = 1, .order = Order::kDrawn});
      feed.start(0);
      for (int i = 0; i < 4; ++i) feed.rank(0).draw({.bytes = "k", .kind = 1, .rows = 1});
      for (int i = 0; i < 4; ++i) {
        if (i == 2) {
          EXPECT_THROW(static_cast<void>(feed.next()), BatchError);
        } else {
          EXPECT_EQ(feed.next()->index(), static_cast<std::uint64_t>(i));
        }
      }
    });
    EXPECT_EQ(open(), 0U);
    EXPECT_EQ(counts("leat read "), each("leat read ", 0, 4, 1));
    auto others = each("leat step ", 0, 4, 1);
    others.erase("leat step 2");
    EXPECT_EQ(counts("leat step "), others);
    EXPECT_LT(named("leat read 1").at(0).begin, named("leat read 0").at(0).end);
  });
}

TEST_F(ProfilerRanges, ACopyThatFailsEnds) {
  recorded([] {
    run([] {
      const Source source([](BatchFill& batch) {
        batch.asked();
        batch.grow(4096);
        const std::array tensors{PlacedTensor{"bytes", DType::kUint8, {4096}, 0}};
        batch.filled(
            {.layout = layout_of(tensors), .rows = 1, .opaque = {}, .failed = {}, .times = {}});
      });
      Prefetcher feed(source, gpu::open("host"),
                      {.batch_size = 1, .order = Order::kDrawn, .max_device_bytes = 1024});
      feed.start(0);
      feed.rank(0).draw({.bytes = "k", .kind = 1, .rows = 1});
      EXPECT_THROW(static_cast<void>(feed.next()), Error);  // no room on the device
    });
    EXPECT_EQ(named("leat copy 0").size(), 1U);
    EXPECT_EQ(open(), 0U);
  });
}

}  // namespace ranges_test
}  // namespace leat::feeder
