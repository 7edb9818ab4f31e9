// Samples per second that reach a loop which does nothing but look whether they are right: files in
// memory, a prefetcher on the host device, whose link is not modelled. Its copy to the "device" is
// a memcpy, which is made and counts. bench/peers/feed/ does the same with other loaders.
//
// The problems are those of bench/peers/feed/README.md.
//
// Arguments: `workers`, PrefetcherOptions::workers; `fiber`, where the loop is: on a fiber of a
// scheduler with so many threads, which the prefetcher's stages share, or (0) on a plain thread
// beside the prefetcher's own scheduler; `ahead`, PrefetcherOptions::prefetch_depth. The order is
// shuffled.
//
// An iteration is one sample; epochs are run whole. Of each sample a few elements are looked at,
// the same as the peers look at, and summed up into what tells whether every sample of the epoch
// was there once; in the epoch before the clock starts, all elements.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/feeder/feed_data.h"
#include "leat/csp/base/random.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/compose.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/image_folder.h"
#include "leat/feeder/sources/jpeg.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"

namespace {

using namespace leat::feeder;

/// What an epoch has delivered, whatever its order.
struct Delivered {
  std::uint64_t samples = 0;
  std::uint64_t keys = 0;      // of a few elements of each sample, mixed, then added up
  std::uint64_t elements = 0;  // all of them, added up; 0 where they were not looked at
  friend bool operator==(const Delivered&, const Delivered&) = default;

  void add(std::uint64_t key) noexcept {
    ++samples;
    keys += leat::mix(key);
  }
};

enum class Look : std::uint8_t { kAtAll, kAtFew };

template <class T>
std::uint64_t sum(const T* first, std::size_t count) noexcept {
  return std::accumulate(first, first + count, std::uint64_t{0});
}

// --- Tokens.

constexpr std::size_t kLength = 1024;

std::uint64_t key_of_window(std::uint64_t first, std::uint64_t last) noexcept {
  return first << 32 | last;
}

template <class Token>
std::unique_ptr<Dataset> open_tokens(const std::filesystem::path& files) {
  return std::make_unique<TokenShards>(
      files, TokenShardsOptions{.sequence_length = kLength, .dtype = kDTypeOf<Token>});
}

template <class Token, std::size_t kWindows = 32>
struct Tokens {
  static constexpr std::size_t kBatch = kWindows;

  [[nodiscard]] static std::unique_ptr<Dataset> open() {
    return open_tokens<Token>(bench::FeedData::instance().tokens());
  }
  static void look_at(Lease& batch, Look look, Delivered& seen) {
    const auto* const x = batch["x"].data<Token>();
    const auto* const y = batch["y"].data<Token>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::size_t at = i * kLength;
      seen.add(key_of_window(static_cast<std::uint64_t>(x[at]),
                             static_cast<std::uint64_t>(y[at + kLength - 1])));
    }
    const std::size_t all = batch.size() * kLength;
    if (look == Look::kAtAll) seen.elements += sum(x, all) + sum(y, all);
  }
  [[nodiscard]] static Delivered expected(const Dataset& data) {
    const auto token = [](std::uint64_t position) {
      return std::uint64_t{synthetic_token(bench::kSeed, 0, position, bench::kVocabulary)};
    };
    Delivered all;
    for (std::uint64_t window = 0; window < data.size(); ++window) {
      const std::uint64_t first = window * kLength;
      all.add(key_of_window(token(first), token(first + kLength)));
      for (std::uint64_t i = 0; i < kLength; ++i) {
        all.elements += token(first + i) + token(first + i + 1);
      }
    }
    return all;
  }
};

// The same windows, as a mixture of `kParts` datasets.
template <std::size_t kParts>
struct MixedTokens : Tokens<std::int32_t> {
  struct Parts {
    std::vector<std::unique_ptr<Dataset>> some = {};
    std::optional<Mixture> mixture = {};
  };
  [[nodiscard]] static std::shared_ptr<Dataset> open() {
    const auto parts = std::make_shared<Parts>();
    std::vector<MixturePart> list;
    for (const std::filesystem::path& file : bench::cut_tokens(kParts, kLength)) {
      parts->some.push_back(open_tokens<std::int32_t>(file));
      list.push_back({*parts->some.back()});
    }
    return {parts, &parts->mixture.emplace(list)};
  }
};

// --- CIFAR-10.

constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;

std::uint64_t key_of_image(std::uint64_t label, const std::uint8_t* image) noexcept {
  return label << 16 | std::uint64_t{image[0]} << 8 | image[kPixels - 1];
}

template <std::size_t kRecords>
struct Images {
  static constexpr std::size_t kBatch = kRecords;

  [[nodiscard]] static std::unique_ptr<Dataset> open() {
    return std::make_unique<Cifar10>(FilePatterns(bench::FeedData::instance().cifar10()));
  }
  static void look_at(Lease& batch, Look look, Delivered& seen) {
    const auto* const image = batch["image"].data<std::uint8_t>();
    const auto* const label = batch["label"].data<std::uint8_t>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      seen.add(key_of_image(label[i], image + i * kPixels));
    }
    if (look == Look::kAtAll) seen.elements += sum(image, batch.size() * kPixels);
  }
  [[nodiscard]] static Delivered expected(const Dataset& data) {
    Delivered all;
    std::vector<std::uint8_t> image(kPixels);
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      synthetic_bytes(bench::kSeed, i, std::as_writable_bytes(std::span(image)));
      all.add(key_of_image(synthetic_label(bench::kSeed, i, Cifar10::kClasses), image.data()));
      all.elements += sum(image.data(), kPixels);
    }
    return all;
  }
};

// --- Images. A sample's label is its number. Of its pixels the mean is looked at, which resizing
// keeps, as far as the rounding of borders lets it.

constexpr std::int64_t kSide = 224;
constexpr double kFar = 2;  // from the mean, in levels of 256

double mean(std::span<const std::uint8_t> pixels) {
  return static_cast<double>(sum(pixels.data(), pixels.size())) /
         static_cast<double>(pixels.size());
}

// Of every image, by number: what the folder has in means.f32, or what decoding all of each gives.
std::vector<double> means_of(const std::filesystem::path& folder) {
  std::vector<double> means;
  if (std::ifstream file(folder / "means.f32", std::ios::binary); file) {
    for (float one = 0; file.read(reinterpret_cast<char*>(&one), sizeof one);) means.push_back(one);
    return means;
  }
  const WebDataset files(folder, {.parts = {raw_bytes({.name = "jpg",
                                                       .dtype = DType::kUint8,
                                                       .shape = {std::int64_t{1} << 20},
                                                       .variable_length = true},
                                                      {"jpg"})}});
  Scratch scratch;
  std::vector<std::byte> memory(files.fields()[0].bytes());
  std::vector<std::span<std::byte>> rooms{memory};
  std::vector<std::size_t> lengths(1);
  JpegDecoder decoder;
  for (std::uint64_t i = 0; i < files.size(); ++i) {
    Sample sample(files.fields(), rooms, lengths, 0, 0, Random(0, 0, i), scratch);
    files.read(i, sample);
    const JpegHeader header = decoder.open(std::span(memory).first(lengths[0]));
    std::vector<std::uint8_t> pixels(std::size_t{3} * header.width * header.height);
    decoder.start({0, 0, header.width, header.height});
    decoder.read(pixels, header.height);
    means.push_back(mean(pixels));
  }
  return means;
}

enum class How : std::uint8_t { kAntialiased, kBilinear, kScaled };

// The names of FeedData's folders.
constexpr char kJpeg[] = "jpeg";
constexpr char kJpegLarge[] = "jpeg_large";
constexpr char kJpegFolder[] = "jpeg_folder";  // the files of kJpeg
constexpr char kPng[] = "png";
constexpr char kWebp[] = "webp";

template <const char* kName, How kHow>
struct Photos {
  static constexpr std::size_t kBatch = 32;
  static constexpr bool kIsFolder = kName == kJpegFolder;

  [[nodiscard]] static const std::vector<double>& means() {
    static const std::vector<double> all =
        means_of(bench::FeedData::instance().images(kIsFolder ? kJpeg : kName));
    return all;
  }
  [[nodiscard]] static std::unique_ptr<Dataset> open() {
    const ImageOptions image = {.height = kSide,
                                .width = kSide,
                                .antialias = kHow == How::kAntialiased,
                                .scaled_decoding = kHow == How::kScaled};
    const std::filesystem::path folder = bench::FeedData::instance().images(kName);
    if (!exists(folder)) throw std::runtime_error("only ./run bench feed makes these files");
    if constexpr (kIsFolder) {
      return std::make_unique<ImageFolder>(folder, ImageFolderOptions{.image = image});
    } else {
      return std::make_unique<WebDataset>(
          folder, WebDatasetOptions{.parts = {any_image("image", image), class_label("label")}});
    }
  }
  static void look_at(Lease& batch, Look look, Delivered& seen) {
    constexpr std::size_t kBytes = std::size_t{3} * kSide * kSide;
    const auto* const image = batch["image"].data<std::uint8_t>();
    const auto* const label = batch["label"].data<std::int64_t>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto number = static_cast<std::uint64_t>(label[i]);
      benchmark::DoNotOptimize(image[i * kBytes]);
      seen.add(number);
      if (look != Look::kAtAll) continue;
      const double found = mean({image + i * kBytes, kBytes});
      if (number >= means().size() || std::abs(found - means()[number]) > kFar) {
        throw std::runtime_error("wrong data: image " + std::to_string(number) + " has a mean of " +
                                 std::to_string(found));
      }
    }
  }
  [[nodiscard]] static Delivered expected(const Dataset& data) {
    Delivered all;
    for (std::uint64_t i = 0; i < data.size(); ++i) all.add(i);
    return all;
  }
};

// --- How they run.

template <class Kind>
Delivered run_epoch(Prefetcher& feed, std::uint64_t epoch, Look look) {
  Delivered seen;
  for (Lease& batch : feed.epoch(epoch)) Kind::look_at(batch, look, seen);
  return seen;
}

template <class Kind>
void run(benchmark::State& state) {
  const std::shared_ptr<const Dataset> data = Kind::open();
  static const Delivered all = Kind::expected(*data);
  Delivered few = all;
  few.elements = 0;

  Prefetcher feed(*data, leat::gpu::open_host({}),
                  {.batch_size = Kind::kBatch,
                   .prefetch_depth = static_cast<std::size_t>(state.range(2)),
                   .workers = static_cast<std::size_t>(state.range(0)),
                   .seed = bench::kSeed});
  bool is_right = run_epoch<Kind>(feed, 0, Look::kAtAll) == all;
  std::uint64_t epoch = 0;
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(data->size()))) {
    is_right = run_epoch<Kind>(feed, ++epoch, Look::kAtFew) == few && is_right;
  }
  if (!is_right) state.SkipWithError("wrong data");
  state.SetItemsProcessed(state.iterations());
}

template <class Kind>
void guarded(benchmark::State& state) {
  try {
    if (state.range(1) == 0) return run<Kind>(state);
    leat::run([&] { run<Kind>(state); }, {.workers = static_cast<int>(state.range(1))});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void tokens(benchmark::State& state) { guarded<Tokens<std::int32_t>>(state); }
void tokens_uint16(benchmark::State& state) { guarded<Tokens<std::uint16_t>>(state); }
void tokens_mix_2(benchmark::State& state) { guarded<MixedTokens<2>>(state); }
void tokens_mix_16(benchmark::State& state) { guarded<MixedTokens<16>>(state); }
void tokens_mix_100(benchmark::State& state) { guarded<MixedTokens<100>>(state); }
void tokens_large(benchmark::State& state) { guarded<Tokens<std::int32_t, 2048>>(state); }
void cifar(benchmark::State& state) { guarded<Images<256>>(state); }
void cifar_large(benchmark::State& state) { guarded<Images<4096>>(state); }

void jpeg(benchmark::State& state) { guarded<Photos<kJpeg, How::kAntialiased>>(state); }
void jpeg_bilinear(benchmark::State& state) { guarded<Photos<kJpeg, How::kBilinear>>(state); }
void jpeg_large(benchmark::State& state) { guarded<Photos<kJpegLarge, How::kAntialiased>>(state); }
void jpeg_large_bilinear(benchmark::State& state) {
  guarded<Photos<kJpegLarge, How::kBilinear>>(state);
}
void jpeg_scaled(benchmark::State& state) { guarded<Photos<kJpegLarge, How::kScaled>>(state); }

// Of files that bench/suites/feed.py and the peers' Pillow make.
void jpeg_folder(benchmark::State& state) {
  guarded<Photos<kJpegFolder, How::kAntialiased>>(state);
}
void png(benchmark::State& state) { guarded<Photos<kPng, How::kAntialiased>>(state); }
void webp(benchmark::State& state) { guarded<Photos<kWebp, How::kAntialiased>>(state); }

void ways(benchmark::internal::Benchmark* row) {
  row->ArgNames({"workers", "fiber", "ahead"})->ArgsProduct({{1, 2}, {0, 1, 2}, {4}});
  row->UseRealTime();
}
// Of batches so small that handing one over takes as long as reading it.
void ways_of_small(benchmark::internal::Benchmark* row) {
  row->ArgNames({"workers", "fiber", "ahead"})->ArgsProduct({{1, 2}, {0, 1, 2}, {4, 16}});
  row->UseRealTime();
}
BENCHMARK(tokens)->Apply(ways_of_small);
BENCHMARK(tokens_mix_2)->Apply(ways_of_small);
BENCHMARK(tokens_mix_16)->Apply(ways_of_small);
BENCHMARK(tokens_mix_100)->Apply(ways_of_small);
BENCHMARK(tokens_uint16)->Apply(ways);
BENCHMARK(tokens_large)->Apply(ways);
BENCHMARK(cifar)->Apply(ways);
BENCHMARK(cifar_large)->Apply(ways);
BENCHMARK(jpeg)->Apply(ways);
BENCHMARK(jpeg_bilinear)->Apply(ways);
BENCHMARK(jpeg_large)->Apply(ways);
BENCHMARK(jpeg_large_bilinear)->Apply(ways);
BENCHMARK(jpeg_scaled)->Apply(ways);
BENCHMARK(jpeg_folder)->Apply(ways);
BENCHMARK(png)->Apply(ways);
BENCHMARK(webp)->Apply(ways);

}  // namespace
