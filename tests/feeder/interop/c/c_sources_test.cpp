// The C API: the openers of files and arrays, each compared with what it opens in C++, and the
// options that came later.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/interop/c/leat.h"
#include "leat/feeder/interop/c/sources.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/interop/c/fixture.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder::c_api {
namespace c_sources_test {

/// Checks that all samples of `data`, which is closed, are those of `want`.
void expect_same(leat_dataset* data, const Dataset& want) {
  const Feed feed(data, [&](leat_options& o) {
    o.batch_size = want.size();
    o.order = LEAT_ORDER_SEQUENTIAL;
  });
  leat_batch* const batch = feed.next_batch();
  for (std::size_t f = 0; f < want.fields().size(); ++f) {
    const Field& field = want.fields()[f];
    const leat_tensor tensor = Feed::tensor_of(batch, f);
    ASSERT_NE(tensor.data, nullptr);
    EXPECT_EQ(tensor.name, field.name);
    EXPECT_EQ(tensor.dtype, static_cast<std::int32_t>(field.dtype));
    EXPECT_EQ(std::vector(tensor.shape + 1, tensor.shape + tensor.ndim), field.shape);
    ASSERT_EQ(tensor.bytes, want.size() * field.bytes());
    for (std::uint64_t i = 0; i < want.size(); ++i) {
      SampleBuffer sample(want.fields(), 0, 0, i);
      want.read(i, sample);
      const auto bytes = sample.bytes(f);
      EXPECT_EQ(std::memcmp(static_cast<const std::byte*>(tensor.data) + i * field.bytes(),
                            bytes.data(), bytes.size()),
                0)
          << "sample " << i;
    }
  }
  LEAT_EXPECT_OK(leat_batch_release(batch));
}

TEST(CApiSources, ACancelledThreadEndsInAnOpener) {
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
  GTEST_SKIP() << "the sanitizers do not see the C library unwind a cancelled thread";
#endif
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void*) -> void* {
                  pthread_cancel(pthread_self());
                  leat_dataset* data = nullptr;
                  // Opens a file, where the cancellation is delivered.
                  static_cast<void>(leat_dataset_open_mnist("examples/data/mnist", 0, &data));
                  return nullptr;
                },
                nullptr),
            0);
  void* end = nullptr;
  pthread_join(thread, &end);
  EXPECT_EQ(end, PTHREAD_CANCELED);
}

TEST(CApiSources, CifarIsAsInCpp) {
  const TemporaryDirectory folder;
  static_cast<void>(write_cifar10(folder.path(), {.samples = 50, .seed = 3}));
  leat_dataset* data = nullptr;
  const std::string path = folder.path().string();
  LEAT_EXPECT_OK(leat_dataset_open_cifar10(path.c_str(), LEAT_SPLIT_TRAIN, LEAT_INT64, &data));
  expect_same(data, Cifar10(folder.path(), Cifar10::kTrain, {.label = DType::kInt64}));

  std::vector<char> records(2 * 3074, 7);
  std::ofstream(folder.path() / "test.bin").write(records.data(), 2 * 3074);
  LEAT_EXPECT_OK(leat_dataset_open_cifar100(path.c_str(), LEAT_SPLIT_TEST, LEAT_UINT8, &data));
  expect_same(data, Cifar100(folder.path(), Cifar100::kTest));

  const std::string batches = path + "/data_batch_{1..5}.bin";
  LEAT_EXPECT_OK(leat_dataset_open_cifar10_files(batches.c_str(), LEAT_INT32, &data));
  expect_same(data, Cifar10(folder.path(), Cifar10::kTrain, {.label = DType::kInt32}));
  const std::string test = path + "/t*.bin";
  LEAT_EXPECT_OK(leat_dataset_open_cifar100_files(test.c_str(), LEAT_UINT8, &data));
  expect_same(data, Cifar100(folder.path(), Cifar100::kTest));
  expect_error(leat_dataset_open_cifar10_files(nullptr, LEAT_UINT8, &data), LEAT_ERROR_ARGUMENT,
               "leat_dataset_open_cifar10_files: files is null");
  expect_error(leat_dataset_open_cifar100_files((path + "/x*").c_str(), LEAT_UINT8, &data),
               LEAT_ERROR_ENVIRONMENT, "/x*");

  expect_error(leat_dataset_open_cifar10(path.c_str(), LEAT_SPLIT_TEST, LEAT_UINT8, &data),
               LEAT_ERROR_ENVIRONMENT, "test_batch.bin");
  EXPECT_EQ(data, nullptr);
  expect_error(leat_dataset_open_cifar10(path.c_str(), 2, LEAT_UINT8, &data), LEAT_ERROR_ARGUMENT,
               "leat_dataset_open_cifar10: split is 2, which is no leat_split");
  expect_error(leat_dataset_open_cifar100(path.c_str(), 0, 13, &data), LEAT_ERROR_ARGUMENT,
               "leat_dataset_open_cifar100: label is 13, which is no leat_dtype");
  expect_error(leat_dataset_open_cifar10(path.c_str(), 0, LEAT_FLOAT32, &data), LEAT_ERROR_ARGUMENT,
               "float32");
  expect_error(leat_dataset_open_cifar10(nullptr, 0, LEAT_UINT8, &data), LEAT_ERROR_ARGUMENT,
               "directory is null");
}

TEST(CApiSources, MnistInPartsIsAsInCpp) {
  const TemporaryDirectory folder;
  for (const std::string part : {"0", "1"}) {
    const auto pixel = static_cast<std::uint8_t>(part[0]);
    folder.write("images_" + part, idx_header({1, 1, 2}) + Bytes{pixel, 9});
    folder.write("labels_" + part, idx_header({1}) + Bytes{static_cast<std::uint8_t>(pixel % 10)});
  }
  const std::string images = folder.path().string() + "/images_?";
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_open_mnist_files(images.c_str(), &data));
  const Mnist want(images);
  EXPECT_EQ(want.size(), 2U);
  expect_same(data, want);
  expect_error(leat_dataset_open_mnist_files(nullptr, &data), LEAT_ERROR_ARGUMENT,
               "leat_dataset_open_mnist_files: images is null");
  expect_error(leat_dataset_open_mnist_files((folder.path() / "labels_?").c_str(), &data),
               LEAT_ERROR_ENVIRONMENT, "labels_0");
}

TEST(CApiSources, TokenShardsAreAsInCpp) {
  const TemporaryDirectory folder;
  static_cast<void>(write_tokens(folder.path(), {.tokens = 300,
                                                 .shards = 2,
                                                 .seed = 5,
                                                 .token = DType::kUint32,
                                                 .header = false,
                                                 .vocabulary = 100'000}));
  const std::string files = folder.path().string() + "/tokens_{00000..00001}.bin";
  leat_token_shards_options options;
  LEAT_EXPECT_OK(leat_token_shards_options_init(&options, sizeof options));
  EXPECT_EQ(options.size, sizeof options);
  EXPECT_EQ(options.dtype, LEAT_INT32);
  EXPECT_EQ(options.token, -1);
  options.sequence_length = 8;
  options.stride = 5;
  options.header = LEAT_TOKEN_HEADER_NONE;
  options.token = LEAT_UINT32;
  options.dtype = LEAT_INT64;
  options.vocabulary = 100'000;
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_open_token_shards(files.c_str(), &options, &data));
  expect_same(data, TokenShards(files, {.sequence_length = 8,
                                        .stride = 5,
                                        .header = TokenHeader::kNone,
                                        .token = DType::kUint32,
                                        .dtype = DType::kInt64,
                                        .vocabulary = 100'000}));

  const auto refused = [&](auto&& change, leat_status status, auto... parts) {
    leat_token_shards_options changed = options;
    change(changed);
    expect_error(leat_dataset_open_token_shards(files.c_str(), &changed, &data), status, parts...);
    EXPECT_EQ(data, nullptr);
  };
  using O = leat_token_shards_options&;
  refused([](O o) { o.sequence_length = 0; }, LEAT_ERROR_ARGUMENT, "sequence_length");
  refused([](O o) { o.header = 3; }, LEAT_ERROR_ARGUMENT, "header is 3", "leat_token_header");
  refused([](O o) { o.token = 99; }, LEAT_ERROR_ARGUMENT, "token is 99", "leat_dtype");
  refused([](O o) { o.token = -1; }, LEAT_ERROR_ENVIRONMENT, "tokens are uint16", "vocabulary");
  refused([](O o) { o.dtype = -1; }, LEAT_ERROR_ARGUMENT, "dtype is -1", "leat_dtype");
  refused([](O o) { o.size = 9; }, LEAT_ERROR_ARGUMENT, "leat_token_shards_options of 9 bytes");
  refused([](O o) { o.header = LEAT_TOKEN_HEADER_LLM_C; }, LEAT_ERROR_ENVIRONMENT, "tokens_00000");
  const std::string directory = folder.path().string();
  options.extension = ".tok";
  expect_error(leat_dataset_open_token_shards(directory.c_str(), &options, &data),
               LEAT_ERROR_ENVIRONMENT, ".tok");
  expect_error(leat_dataset_open_token_shards(nullptr, &options, &data), LEAT_ERROR_ARGUMENT,
               "files is null");
  expect_error(leat_dataset_open_token_shards("x", nullptr, &data), LEAT_ERROR_ARGUMENT,
               "options is null");
}

TEST(CApiSources, FixedRecordsAreAsInCpp) {
  const TemporaryDirectory folder;
  static_cast<void>(write_records(
      folder.path(),
      {.samples = 20, .shards = 2, .seed = 7, .record_bytes = 32, .header_bytes = 16}));
  const std::int64_t shape[] = {2, 3};
  const leat_field fields[] = {{"label", LEAT_INT64, 0, nullptr, 0},
                               {"embedding", LEAT_FLOAT32, 2, shape, 0}};
  leat_fixed_records_options options;
  LEAT_EXPECT_OK(leat_fixed_records_options_init(&options, sizeof options));
  options.fields = fields;
  options.field_count = 2;
  options.header_bytes = 16;
  const std::string files = folder.path().string();
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_open_fixed_records(files.c_str(), &options, &data));
  leat_web_left_out left_out;
  expect_error(leat_dataset_web_left_out(data, &left_out, sizeof left_out), LEAT_ERROR_ARGUMENT,
               "leat_dataset_web_left_out: dataset is no WebDataset");
  expect_same(data, FixedRecords(files, {.fields = {{"label", DType::kInt64, {}},
                                                    {"embedding", DType::kFloat32, {2, 3}}},
                                         .header_bytes = 16}));

  options.header_bytes = 15;
  expect_error(leat_dataset_open_fixed_records(files.c_str(), &options, &data),
               LEAT_ERROR_ENVIRONMENT, "records_00000.bin");
  options.extension = ".rec";
  expect_error(leat_dataset_open_fixed_records(files.c_str(), &options, &data),
               LEAT_ERROR_ENVIRONMENT, ".rec");
  options.field_count = 0;
  expect_error(leat_dataset_open_fixed_records(files.c_str(), &options, &data), LEAT_ERROR_ARGUMENT,
               "leat_dataset_open_fixed_records: there are no fields");
  options.size = 1;
  expect_error(leat_dataset_open_fixed_records(files.c_str(), &options, &data), LEAT_ERROR_ARGUMENT,
               "leat_fixed_records_options of 1 bytes");
}

TEST(CApiSources, WebDatasetsAreAsInCpp) {
  const TemporaryDirectory folder;
  static_cast<void>(write_synthetic_web(folder.path(), {.samples = 6,
                                                        .samples_per_shard = 4,
                                                        .min_width = 200,
                                                        .max_width = 240,
                                                        .min_height = 180,
                                                        .max_height = 220,
                                                        .seed = 2}));
  const std::string files = folder.path().string();
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_open_web(files.c_str(), nullptr, &data));
  leat_web_left_out left_out;
  LEAT_EXPECT_OK(leat_dataset_web_left_out(data, &left_out, sizeof left_out));
  EXPECT_EQ(left_out.skipped, 0U);
  EXPECT_EQ(left_out.symbolic_links, 0U);
  expect_same(data, WebDataset(files));

  leat_image_options image;
  LEAT_EXPECT_OK(leat_image_options_init(&image, sizeof image));
  EXPECT_EQ(image.height, 224);
  EXPECT_EQ(image.scale[0], 0.08);
  image.height = 16;
  image.width = 12;
  image.shorter_side = 20;
  image.fit = LEAT_FIT_CENTER_CROP;
  image.planar = 1;
  image.mirror = 1;
  EXPECT_EQ(image.antialias, 1);
  image.antialias = 0;
  const std::int64_t longest = 100;
  const leat_web_part parts[] = {
      {{"small", 0, 0, nullptr, 0}, LEAT_WEB_IMAGE, 0, nullptr, &image},
      {{"class", 0, 0, nullptr, 0}, LEAT_WEB_LABEL, 0, "txt,cls", nullptr},
      {{"json", LEAT_UINT8, 1, &longest, 1}, LEAT_WEB_BYTES, 0, "json", nullptr}};
  leat_web_options options;
  LEAT_EXPECT_OK(leat_web_options_init(&options, sizeof options));
  EXPECT_EQ(options.open_files, 128U);
  options.parts = parts;
  options.part_count = 3;
  LEAT_EXPECT_OK(leat_dataset_open_web(files.c_str(), &options, &data));
  expect_same(
      data,
      WebDataset(files, {.parts = {jpeg_image("small", {.height = 16,
                                                        .width = 12,
                                                        .fit = Fit::kCenterCrop,
                                                        .shorter_side = 20,
                                                        .mirror = 1,
                                                        .planar = true,
                                                        .antialias = false}),
                                   class_label("class", {"txt", "cls"}),
                                   raw_bytes({"json", DType::kUint8, {100}, true}, {"json"})}}));

  const auto refused = [&](leat_web_part part, leat_status status, auto... texts) {
    options.parts = &part;
    options.part_count = 1;
    expect_error(leat_dataset_open_web(files.c_str(), &options, &data), status, texts...);
    EXPECT_EQ(data, nullptr);
  };
  const leat_field named{"it", LEAT_UINT8, 0, nullptr, 0};
  refused({named, 3, 0, nullptr, nullptr}, LEAT_ERROR_ARGUMENT, "parts[0].kind is 3");
  refused({named, LEAT_WEB_BYTES, 0, nullptr, nullptr}, LEAT_ERROR_ARGUMENT,
          "parts[0] has no extensions");
  refused({{}, LEAT_WEB_IMAGE, 0, nullptr, nullptr}, LEAT_ERROR_ARGUMENT, "parts[0] has no name");
  refused({{"it", 0, 1, &longest, 0}, LEAT_WEB_LABEL, 0, nullptr, nullptr}, LEAT_ERROR_ARGUMENT,
          "parts[0] has a shape");
  refused({named, LEAT_WEB_LABEL, 0, "seg", nullptr}, LEAT_ERROR_ENVIRONMENT, "synthetic-000000",
          "lacks part");
  refused({named, LEAT_WEB_LABEL, 7, nullptr, nullptr}, LEAT_ERROR_ARGUMENT,
          "parts[0]: reserved is 7");
  image.reserved = 2;
  refused({named, LEAT_WEB_IMAGE, 0, nullptr, &image}, LEAT_ERROR_ARGUMENT,
          "leat_image_options: reserved is 2");
  image.reserved = 0;
  options.skip_incomplete = 1;
  refused({named, LEAT_WEB_LABEL, 0, "seg", nullptr}, LEAT_ERROR_ENVIRONMENT, "no samples");
  image.fit = 4;
  refused({named, LEAT_WEB_IMAGE, 0, nullptr, &image}, LEAT_ERROR_ARGUMENT, "fit is 4");
  image.fit = LEAT_FIT_EXACT;
  image.height = 0;
  refused({named, LEAT_WEB_IMAGE, 0, nullptr, &image}, LEAT_ERROR_ARGUMENT, "height");
  image.size = 2;
  refused({named, LEAT_WEB_IMAGE, 0, nullptr, &image}, LEAT_ERROR_ARGUMENT,
          "leat_image_options of 2 bytes");
  expect_error(leat_dataset_open_web("no/such.tar", nullptr, &data), LEAT_ERROR_ENVIRONMENT,
               "no/such.tar");
}

TEST(CApiSources, ArraysAreReadInPlaceAndGivenBack) {
  const std::vector<float> points = {0, 1, 10, 11, 20, 21};
  const std::vector<std::int32_t> labels = {5, 6, 7};
  const std::int64_t shape = 2;
  leat_array arrays[] = {
      {{"point", LEAT_FLOAT32, 1, &shape, 0}, points.data(), points.size() * sizeof(float)},
      {{"label", LEAT_INT32, 0, nullptr, 0}, labels.data(), labels.size() * sizeof(int)}};
  int closes = 0;
  leat_array_dataset given{};
  given.size = sizeof given;
  given.arrays = arrays;
  given.array_count = 2;
  given.user = &closes;
  given.close = [](void* user) { ++*static_cast<int*>(user); };
  leat_dataset* data = nullptr;
  LEAT_EXPECT_OK(leat_dataset_from_arrays(&given, &data));
  std::uint64_t samples = 0;
  LEAT_EXPECT_OK(leat_dataset_size(data, &samples));
  EXPECT_EQ(samples, 3U);

  {
    const Feed feed(data, [](leat_options& o) { o.order = LEAT_ORDER_SEQUENTIAL; });
    leat_batch* const batch = feed.next_batch();
    EXPECT_EQ(elements_of<float>(Feed::tensor_of(batch, 0)), points);
    EXPECT_EQ(elements_of<std::int32_t>(Feed::tensor_of(batch, 1)), labels);
    LEAT_EXPECT_OK(leat_batch_release(batch));
    EXPECT_EQ(closes, 0);
  }
  EXPECT_EQ(closes, 1);

  const auto refused = [&](auto... parts) {
    expect_error(leat_dataset_from_arrays(&given, &data), LEAT_ERROR_ARGUMENT, parts...);
    EXPECT_EQ(data, nullptr);
  };
  arrays[1].bytes = 8;
  refused("point", "label");
  arrays[1].values = nullptr;
  refused("array \"label\" has 8 bytes, and no values");
  arrays[1].field.name = "point";
  refused("two fields", "\"point\"");
  given.array_count = 0;
  refused("there are no arrays");
  given.size = 3;
  refused("leat_array_dataset of 3 bytes");
  expect_error(leat_dataset_from_arrays(nullptr, &data), LEAT_ERROR_ARGUMENT, "arrays is null");
  EXPECT_EQ(closes, 1) << "what was refused is still the caller's";
}

TEST(CApiSources, EveryInitRefusesWhatItDoesNotKnow) {
  leat_token_shards_options tokens;
  leat_fixed_records_options records;
  leat_image_options image;
  leat_web_options web;
  const auto refuses = [](auto init, auto& options, const char* type) {
    const std::string larger = std::string(type) + " of " + std::to_string(sizeof options + 8);
    expect_error(init(&options, sizeof options + 8), LEAT_ERROR_ARGUMENT, larger.c_str());
    expect_error(init(nullptr, sizeof options), LEAT_ERROR_ARGUMENT, "options is null");
  };
  refuses(leat_token_shards_options_init, tokens, "leat_token_shards_options");
  refuses(leat_fixed_records_options_init, records, "leat_fixed_records_options");
  refuses(leat_image_options_init, image, "leat_image_options");
  refuses(leat_web_options_init, web, "leat_web_options");
}

}  // namespace c_sources_test
}  // namespace leat::feeder::c_api
