// A state knows the files of its dataset.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace resume_files_test {

namespace fs = std::filesystem;

class ResumeFiles : public ::testing::Test {
 protected:
  // A dataset of 20 bytes in two files of these names.
  FixedRecords bytes(const std::string& folder, const char* first = "a.bin",
                     const char* second = "b.bin", std::size_t in_first = 10) const {
    fs::create_directory(directory_.path() / folder);
    directory_.write(folder + "/" + first, Bytes(in_first, 1));
    directory_.write(folder + "/" + second, Bytes(20 - in_first, 2));
    return FixedRecords(directory_.path() / folder, {.fields = {{"x", DType::kUint8, {}}}});
  }
  static Prefetcher feed(const Dataset& data, std::optional<std::string> resume = std::nullopt) {
    return Prefetcher(data, gpu::open("host"), {.batch_size = 4, .resume = std::move(resume)});
  }

  TemporaryDirectory directory_;
};

TEST_F(ResumeFiles, OtherFilesThanThoseOfTheRunAreRefused) {
  const FixedRecords data = bytes("a");
  const std::string state = feed(data).state();
  EXPECT_EQ(State::parse(state).dataset, data.digest());
  EXPECT_EQ(feed(data, state).state(), state);
  EXPECT_EQ(feed(bytes("moved"), state).state(), state);

  const auto refused = [&](const Dataset& other) {
    const std::string text = error_of([&] { feed(other, state); });
    expect_contains(text, {"of a run on other files than those of fixed records",
                           "names (without folders) or sizes differ", "State::dataset"});
  };
  refused(bytes("renamed", "a.bin", "c.bin"));
  refused(bytes("exchanged", "a.bin", "b.bin", 9));

  const std::string& line = state;
  PrefetcherOptions options{.batch_size = 4};
  // [renamed]
  State before = State::parse(line);
  before.dataset = 0;
  options.resume = before.text();
  // [/renamed]
  const FixedRecords renamed = bytes("renamed", "a.bin", "c.bin");
  const Prefetcher resumed(renamed, gpu::open("host"), options);
  EXPECT_EQ(State::parse(resumed.state()).dataset, renamed.digest());
}

TEST_F(ResumeFiles, AnEmptyTextIsNoBeginning) {
  const FixedRecords data = bytes("a");
  for (const char* const text : {"", "\n"}) {
    expect_contains(error_of([&] { feed(data, text); }), {"it is empty", "not written"});
  }
}

TEST_F(ResumeFiles, EverySourceOfFilesHasADigest) {
  const FilePatterns one = directory_.write("one.bin", Bytes(3073)).string();
  const FilePatterns other = directory_.write("other.bin", Bytes(3073)).string();
  const std::vector<Field> fields = {{"x", DType::kUint8, {}}};
  const FixedRecords records(one, {.fields = fields});
  EXPECT_EQ(records.digest(), FixedRecords(one, {.fields = fields}).digest());
  EXPECT_NE(records.digest(), FixedRecords(other, {.fields = fields}).digest());
  EXPECT_NE(Cifar10(one).digest(), Cifar10(other).digest());
  directory_.write("one.bin", Bytes(3072));
  directory_.write("other.bin", Bytes(3072));
  EXPECT_NE(TokenShards(one, {.sequence_length = 8}).digest(),
            TokenShards(other, {.sequence_length = 8}).digest());

  const Bytes shard = tar_file("0.cls", "0") + tar_end();
  const WebDatasetOptions labels{.parts = {class_label("label")}};
  const WebDataset web(directory_.write("a.tar", shard), labels);
  EXPECT_NE(web.digest(), WebDataset(directory_.write("b.tar", shard), labels).digest());
  EXPECT_NE(web.digest(), WebDataset(directory_.write("a.tar", shard + Bytes(1)), labels).digest());

  const Bytes images = idx_header({2, 1, 1}) + Bytes(2);
  const Bytes images_labels = idx_header({2}) + Bytes(2);
  directory_.write("images.idx", images);
  directory_.write("labels.idx", images_labels);
  const Mnist mnist(FilePatterns(directory_.path() / "images.idx"));
  directory_.write("images.idx.gz", gzip(images));
  directory_.write("labels.idx.gz", gzip(images_labels));
  EXPECT_EQ(mnist.digest(), Mnist(FilePatterns(directory_.path() / "images.idx.gz")).digest())
      << "whether they are compressed makes no difference";
  directory_.write("images.idx", idx_header({3, 1, 1}) + Bytes(3));
  directory_.write("labels.idx", idx_header({3}) + Bytes(3));
  EXPECT_NE(mnist.digest(), Mnist(FilePatterns(directory_.path() / "images.idx")).digest());

  const Map mapped(web, [](Sample&) {});
  EXPECT_EQ(mapped.digest(), web.digest());
}

}  // namespace resume_files_test
}  // namespace leat::feeder
