// Files that go bad, through a prefetcher, for each source that reads files. Without a failure
// budget: what comes before the bad sample is delivered, and the message tells stage, dataset,
// sample, file and byte. With one: every good sample comes, once, and the list has the bad ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/gpu/device.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace bad_input_test {

namespace fs = std::filesystem;

constexpr std::size_t kBatchSize = 4;

// A dataset, and what happens to its files while it is open.
struct Opened {
  std::unique_ptr<Dataset> data;
  std::function<void()> strike = {};
  std::vector<std::uint64_t> bad = {};  // samples from then on
  // In the message of the first of them.
  std::vector<std::string> says = {};
};

struct Fault {
  const char* name;
  Opened (*open)(const fs::path& directory);
};
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

// As a disk that fails does it: the time of last modification stays.
void overwrite(const fs::path& file, std::uint64_t at, const std::string& bytes) {
  const auto before = fs::last_write_time(file);
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(at));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  ASSERT_TRUE(out) << file;
  fs::last_write_time(file, before);
}

// Where `what` begins in the file.
std::uint64_t find_in(const fs::path& file, const std::string& what) {
  const Bytes bytes = read_bytes(file);
  const auto found = std::search(bytes.begin(), bytes.end(), what.begin(), what.end());
  EXPECT_NE(found, bytes.end()) << what;
  return static_cast<std::uint64_t>(found - bytes.begin());
}

// The sources, and their faults.

Opened open_cifar10(const fs::path& directory) {
  write_cifar10(directory, {.samples = 20, .seed = 3});
  return {.data = std::make_unique<Cifar10>(directory, Cifar10::kTrain)};
}

Opened cifar10_cut_off(const fs::path& directory) {
  Opened opened = open_cifar10(directory);
  const fs::path file = directory / "data_batch_3.bin";
  opened.strike = [file] { fs::resize_file(file, 2 * 3073); };
  opened.bad = {10, 11};
  opened.says = {"\"cifar-10 train\"", file.string(), "cut off while it was mapped",
                 "it had 12292 bytes, and has 6146 now", "bytes 6146 to 9219"};
  return opened;
}

Opened cifar10_label(const fs::path& directory) {
  Opened opened = open_cifar10(directory);
  const fs::path file = directory / "data_batch_2.bin";
  opened.strike = [file] { overwrite(file, 3073, "\x0a"); };
  opened.bad = {5};
  opened.says = {"\"cifar-10 train\"", "label 10 of sample 5 in " + file.string() + " (byte 3073)"};
  return opened;
}

// Three shards of ten windows.
Opened open_tokens(const fs::path& directory, bool header) {
  write_tokens(directory, {.tokens = 606, .shards = 3, .seed = 3, .header = header});
  return {.data = std::make_unique<TokenShards>(
              directory, TokenShardsOptions{.sequence_length = 20, .vocabulary = 50'257})};
}

Opened tokens_cut_off(const fs::path& directory, bool header) {
  Opened opened = open_tokens(directory, header);
  const fs::path file = directory / "tokens_00001.bin";
  const std::uint64_t begin = header ? 1024 : 0;
  opened.strike = [file, begin] { fs::resize_file(file, begin + 2 * 101); };
  opened.bad = {15, 16, 17, 18, 19};
  opened.says = {"\"tokens of " + directory.string() + "\"", file.string(), "cut off",
                 "bytes " + std::to_string(begin + 200) + " to " + std::to_string(begin + 242)};
  return opened;
}

Opened tokens_with_header_cut_off(const fs::path& d) { return tokens_cut_off(d, true); }
Opened tokens_without_header_cut_off(const fs::path& d) { return tokens_cut_off(d, false); }

Opened token_beyond(const fs::path& directory) {
  Opened opened = open_tokens(directory, true);
  const fs::path file = directory / "tokens_00002.bin";
  opened.strike = [file] { overwrite(file, 1024 + 2 * 45, "\x51\xc4"); };
  opened.bad = {22};
  opened.says = {"\"tokens of", file.string(), "token 50257 at byte 1114 is not below 50257"};
  return opened;
}

FixedRecordsOptions records_options() {
  return {.fields = {{"head", DType::kUint8, {5}}, {"rest", DType::kUint8, {16}}},
          .header_bytes = 16};
}

Opened records_cut_off(const fs::path& directory) {
  write_records(directory,
                {.samples = 24, .shards = 3, .seed = 3, .record_bytes = 21, .header_bytes = 16});
  const fs::path file = directory / "records_00000.bin";
  return {.data = std::make_unique<FixedRecords>(directory, records_options()),
          .strike = [file] { fs::resize_file(file, 16 + 6 * 21); },
          .bad = {6, 7},
          .says = {"\"fixed records of " + directory.string() + "\"", file.string(), "cut off",
                   "bytes 142 to 163"}};
}

// Three shards of five samples, each of 24 bytes that lie 512 behind a multiple of 1024.
Opened open_raw_web(const fs::path& directory, std::size_t open_files) {
  const TarWriter::LongNames names = TarWriter::kPax;
  for (int shard = 0; shard < 3; ++shard) {
    TarWriter tar(directory / (std::to_string(shard) + ".tar"), names);
    for (int i = 5 * shard; i < 5 * shard + 5; ++i) {
      tar.add("s" + octal(static_cast<std::uint64_t>(i), 3) + ".bin",
              std::string(24, static_cast<char>('a' + i)));
    }
    tar.finish();
  }
  const WebDatasetOptions options = {.parts = {raw_bytes({"x", DType::kUint8, {24}}, {"bin"})},
                                     .open_files = open_files};
  return {.data = std::make_unique<WebDataset>(directory, options)};
}

Opened raw_web_cut_off(const fs::path& directory) {
  Opened opened = open_raw_web(directory, 128);
  const fs::path file = directory / "1.tar";
  opened.strike = [file] { fs::resize_file(file, 2048 + 520); };
  opened.bad = {7, 8, 9};
  opened.says = {"\"web dataset\"", "a file of " + file.string() + " (byte 2048)",
                 "the shard has become shorter since it was indexed"};
  return opened;
}

Opened raw_web_changed(const fs::path& directory) {
  Opened opened = open_raw_web(directory, 128);
  const fs::path file = directory / "1.tar";
  opened.strike = [file] {
    const Bytes header = tar_header("s007.bin", 25);  // ragged now
    overwrite(file, 2048, {header.begin(), header.end()});
  };
  opened.bad = {7};
  opened.says = {"\"web dataset\"", "s007.bin of " + file.string() + " (byte 2048)",
                 "the shard has changed since it was indexed"};
  return opened;
}

Opened raw_web_written_again(const fs::path& directory) {
  Opened opened = open_raw_web(directory, 1);
  const fs::path file = directory / "1.tar";
  opened.strike = [file] { fs::last_write_time(file, fs::file_time_type{}); };
  opened.bad = {5, 6, 7, 8, 9};
  opened.says = {"\"web dataset\"", file.string(), "the shard has changed since it was indexed"};
  return opened;
}

// A directory's files cannot be read any more, whoever reads.
Opened raw_web_gone(const fs::path& directory) {
  Opened opened = open_raw_web(directory, 0);
  const fs::path file = directory / "2.tar";
  opened.strike = [file] {
    fs::remove(file);
    fs::create_symlink("nowhere", file);
  };
  opened.bad = {10, 11, 12, 13, 14};
  opened.says = {"\"web dataset\"", file.string(), "No such file"};
  return opened;
}

const SyntheticWebOptions kImages = {.samples = 15,
                                     .samples_per_shard = 5,
                                     .min_width = 30,
                                     .max_width = 60,
                                     .min_height = 30,
                                     .max_height = 60,
                                     .seed = 3};

Opened open_images(const fs::path& directory) {
  write_synthetic_web(directory, kImages);
  const WebDatasetOptions options = {
      .parts = {jpeg_image("image", {.height = 24, .width = 24}), class_label("label")}};
  return {.data = std::make_unique<WebDataset>(directory, options)};
}

// Of sample 7's file of that extension; its data is 512 bytes behind it.
std::uint64_t header_of_sample_7(const fs::path& file, const std::string& extension) {
  return find_in(file, synthetic_sample(kImages, 7).key + extension);
}

// That file begins with other bytes.
Opened sample_7_overwritten(const fs::path& directory, const std::string& extension,
                            const std::string& bytes, const std::string& says) {
  Opened opened = open_images(directory);
  const fs::path file = directory / "synthetic-000001.tar";
  const std::uint64_t header = header_of_sample_7(file, extension);
  opened.strike = [=] { overwrite(file, header + 512, bytes); };
  opened.bad = {7};
  opened.says = {"\"web dataset\"", extension + " of " + file.string(),
                 "(byte " + std::to_string(header) + ")", says};
  return opened;
}
Opened undecodable_image(const fs::path& directory) {
  return sample_7_overwritten(directory, ".jpg", "GIF89a", "it is a GIF image");
}
Opened label_of_an_image(const fs::path& directory) {
  return sample_7_overwritten(directory, ".cls", "x", "it is no integer: \"x");
}

Opened images_cut_off(const fs::path& directory) {
  Opened opened = open_images(directory);
  const fs::path file = directory / "synthetic-000001.tar";
  const std::uint64_t header = header_of_sample_7(file, ".jpg");
  opened.strike = [=] { fs::resize_file(file, header + 600); };
  opened.bad = {7, 8, 9};
  opened.says = {"\"web dataset\"", file.string() + " (byte " + std::to_string(header) + ")",
                 "the shard has become shorter since it was indexed"};
  return opened;
}

// MNIST is read whole when it is opened.
Opened mnist_gone(const fs::path& directory) {
  Bytes images = idx_header({22, 2, 3});
  Bytes labels = idx_header({22});
  for (std::uint8_t i = 0; i < 22; ++i) {
    images.insert(images.end(), 6, i);
    labels.push_back(i % 10);
  }
  const auto write = [&](const char* name, const Bytes& bytes) {
    std::ofstream(directory / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("train-images-idx3-ubyte", images);
  write("train-labels-idx1-ubyte", labels);
  return {.data = std::make_unique<Mnist>(directory, Mnist::kTrain), .strike = [directory] {
            fs::resize_file(directory / "train-images-idx3-ubyte", 0);
            fs::remove(directory / "train-labels-idx1-ubyte");
          }};
}

constexpr Fault kFaults[] = {
    {"MnistGone", mnist_gone},
    {"Cifar10CutOff", cifar10_cut_off},
    {"Cifar10Label", cifar10_label},
    {"TokensWithHeaderCutOff", tokens_with_header_cut_off},
    {"TokensWithoutHeaderCutOff", tokens_without_header_cut_off},
    {"TokenBeyondTheVocabulary", token_beyond},
    {"RecordsCutOff", records_cut_off},
    {"RawWebCutOff", raw_web_cut_off},
    {"RawWebChanged", raw_web_changed},
    {"RawWebWrittenAgain", raw_web_written_again},
    {"RawWebGone", raw_web_gone},
    {"ImageUndecodable", undecodable_image},
    {"ImageLabel", label_of_an_image},
    {"ImagesCutOff", images_cut_off},
};

class BadInput : public testing::TestWithParam<Fault> {
 protected:
  TemporaryDirectory directory_;
};
std::string fault_title(const testing::TestParamInfo<Fault>& fault) { return fault.param.name; }
INSTANTIATE_TEST_SUITE_P(Faults, BadInput, testing::ValuesIn(kFaults), fault_title);

// What is delivered: of each sample the bytes of all its tensors.
using Contents = std::vector<std::string>;

void append(Contents& all, Lease& batch) {
  const TensorSet tensors = batch.tensors();
  for (std::size_t row = 0; row < batch.size(); ++row) {
    std::string& sample = all.emplace_back();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::size_t bytes = tensors[i].bytes() / tensors.rows();
      sample.append(reinterpret_cast<const char*>(tensors[i].raw()) + row * bytes, bytes);
    }
  }
}

// While all is well.
Contents all_of(const Dataset& data, std::size_t batch_size = kBatchSize) {
  Contents all;
  Prefetcher feed(data, gpu::open("host"), {.batch_size = batch_size, .order = Order::kSequential});
  for (Lease& batch : feed.epoch(0)) append(all, batch);
  EXPECT_EQ(all.size(), data.size());
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size()) << "all differ";
  return all;
}

TEST_P(BadInput, IsToldAfterTheBatchesBeforeIt) {
  const Opened opened = GetParam().open(directory_.path());
  const Contents want = all_of(*opened.data);
  opened.strike();
  for (const std::size_t workers : {1U, 3U}) {
    Prefetcher feed(*opened.data, gpu::open("host"),
                    {.batch_size = kBatchSize, .workers = workers, .order = Order::kSequential});
    Contents got;
    if (opened.bad.empty()) {
      for (Lease& batch : feed.epoch(0)) append(got, batch);
      EXPECT_EQ(got, want);
      continue;
    }
    const std::uint64_t batch = opened.bad[0] / kBatchSize;
    const std::string text = error_of([&] {
      while (std::optional<Lease> next = feed.next()) append(got, *next);
    });
    EXPECT_EQ(got, Contents(want.begin(),
                            want.begin() + static_cast<std::ptrdiff_t>(batch * kBatchSize)));
    expect_contains(text, {"leat: reader: sample " + std::to_string(opened.bad[0]) + " of dataset ",
                           "(epoch 0, batch " + std::to_string(batch) + ")"});
    expect_contains(text, opened.says);
    EXPECT_THROW(static_cast<void>(feed.next()), Error);
  }
}

TEST_P(BadInput, WithinABudgetIsSetAsideAndAllElseComesOnce) {
  const Opened opened = GetParam().open(directory_.path());
  Contents want = all_of(*opened.data);
  opened.strike();
  for (auto bad = opened.bad.rbegin(); bad != opened.bad.rend(); ++bad) {
    want.erase(want.begin() + static_cast<std::ptrdiff_t>(*bad));
  }
  std::ranges::sort(want);
  Prefetcher feed(*opened.data, gpu::open("host"),
                  {.batch_size = kBatchSize,
                   .workers = 3,
                   .seed = 1,
                   .read_failures = {.count = 100}});  // the next epoch's too, read ahead
  Contents got;
  for (Lease& batch : feed.epoch(0)) append(got, batch);
  std::ranges::sort(got);
  EXPECT_EQ(got, want);
  std::vector<std::uint64_t> failed;
  for (const FailedSample& one : feed.failed_samples()) {
    if (one.epoch != 0) continue;
    failed.push_back(one.sample);
    EXPECT_EQ(one.stage, FailingStage::kRead);
    if (one.sample != opened.bad[0]) continue;
    for (std::size_t i = 1; i < opened.says.size(); ++i)
      expect_contains(one.error, {opened.says[i]});
  }
  std::ranges::sort(failed);
  EXPECT_EQ(failed, opened.bad);
}

}  // namespace bad_input_test
}  // namespace leat::feeder
