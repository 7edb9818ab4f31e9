// JPEG images to tensors of 224 x 224, on one thread: decode, crop, resize.
//
// An iteration is one image of 32 generated ones, in turn, of 4:2:0 and quality 90, in memory (but
// for web_dataset: in shards, in the page cache). Before it is timed, each way's result is compared
// with that of decoding the whole image and resizing it then: it has to be the same, or, with
// scaled decoding, the same but for 2 of 255 on average (not antialiased: 10). Counters:
//   items_per_second   images
//   Mpixels/s          of the images as they are stored
//
// Names: what is done, then how large images are: 0, 400 to 600 x 300 to 450; 1, twice that.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bench/data/synthetic_web.h"
#include "leat/feeder/sources/image.h"
#include "leat/feeder/sources/read_image.h"
#include "leat/feeder/sources/web_dataset.h"

namespace {

using namespace leat::feeder;

constexpr std::uint64_t kImages = 32;

SyntheticWebOptions options_of(std::int64_t size) {
  const auto factor = static_cast<std::uint32_t>(size) + 1;
  return {.samples = kImages,
          .min_width = 400 * factor,
          .max_width = 600 * factor,
          .min_height = 300 * factor,
          .max_height = 450 * factor};
}

const std::vector<SyntheticSample>& images(std::int64_t size) {
  static std::vector<SyntheticSample> made[2];
  std::vector<SyntheticSample>& found = made[size];
  while (found.size() < kImages) {
    found.push_back(synthetic_sample(options_of(size), found.size()));
  }
  return found;
}

double pixels(std::int64_t size) {
  double sum = 0;
  for (const SyntheticSample& image : images(size)) sum += double{1} * image.width * image.height;
  return sum / kImages;
}

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations());
  state.counters["Mpixels/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * pixels(state.range(0)) * 1e-6,
                         benchmark::Counter::kIsRate);
}

// What a prefetcher has for each of its workers.
class Room {
 public:
  explicit Room(std::span<const Field> fields) : fields_(fields), lengths_(fields.size()) {
    for (const Field& field : fields) {
      memory_.emplace_back(field.bytes());
      rooms_.emplace_back(memory_.back());
    }
  }
  template <class F>
  void read(std::uint64_t index, const F& reads) {
    scratch_.reset();
    Sample sample(fields_, rooms_, lengths_, 0, Random(1, 0, index), scratch_);
    reads(sample);
  }
  [[nodiscard]] const std::vector<std::byte>& bytes(std::size_t field) const {
    return memory_[field];
  }

 private:
  std::span<const Field> fields_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::span<std::byte>> rooms_;
  std::vector<std::size_t> lengths_;
  Scratch scratch_;
};

void decode_all(JpegDecoder& decoder, const SyntheticSample& image,
                std::vector<std::uint8_t>& pixels) {
  const JpegHeader header = decoder.open(image.jpeg);
  pixels.resize(std::size_t{3} * header.width * header.height);
  decoder.start({0, 0, header.width, header.height});
  decoder.read(pixels, header.height);
}

// How far `found` is from decoding all of the image and resizing it then.
double difference(const ImageOptions& options, std::uint64_t index, const SyntheticSample& image,
                  std::span<const std::byte> found) {
  Random random(1, 0, index);
  const Resize resize = resize_for(options, image.width, image.height, random);
  JpegDecoder decoder;
  std::vector<std::uint8_t> all;
  decode_all(decoder, image, all);
  std::vector<std::uint8_t> expected(found.size());
  resize_image(all, image.width, resize, expected);
  double sum = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    sum += std::abs(static_cast<int>(found[i]) - static_cast<int>(expected[i]));
  }
  return sum / static_cast<double>(found.size());
}

void decode(benchmark::State& state) {
  JpegDecoder decoder;
  std::vector<std::uint8_t> all;
  std::uint64_t next = 0;
  const auto& samples = images(state.range(0));
  for (auto _ : state) decode_all(decoder, samples[next++ % kImages], all);
  count(state);
}

void resize(benchmark::State& state) {
  JpegDecoder decoder;
  const SyntheticSample& image = images(state.range(0))[0];
  std::vector<std::uint8_t> all;
  decode_all(decoder, image, all);
  Random random(0, 0, 0);
  const Resize how = resize_for({}, image.width, image.height, random);
  std::vector<std::uint8_t> out(std::size_t{3} * 224 * 224);
  for (auto _ : state) {
    resize_image(all, image.width, how, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}

void image(benchmark::State& state, const ImageOptions& options) {
  const std::vector<Field> fields = {image_field("image", options)};
  const auto& samples = images(state.range(0));
  JpegDecoder decoder;
  Room room(fields);
  const auto read = [&](std::uint64_t i) {
    room.read(i, [&](Sample& out) { read_image(samples[i].jpeg, options, decoder, out, 0); });
  };
  for (std::uint64_t i = 0; i < kImages; ++i) {
    read(i);
    const double off = difference(options, i, samples[i], room.bytes(0));
    const double most = options.antialias ? 2 : 10;  // as feeder/sources/image.h says
    if (off > (options.scaled_decoding ? most : 0)) {
      state.SkipWithError(("image " + std::to_string(i) + " is wrong").c_str());
      return;
    }
  }
  std::uint64_t next = 0;
  for (auto _ : state) read(next++ % kImages);
  count(state);
}

void web_dataset(benchmark::State& state) {
  const ImageOptions options{.fit = Fit::kRandomResizedCrop, .mirror = 0.5};
  std::string name = (std::filesystem::temp_directory_path() / "leat_web_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    state.SkipWithError(("cannot make " + name).c_str());
    return;
  }
  {
    const WebDataset data(write_synthetic_web(name, options_of(state.range(0))),
                          {.parts = {jpeg_image("image", options), class_label("label")}});
    Room room(data.fields());
    for (std::uint64_t i = 0; i < kImages; ++i) {
      const SyntheticSample& expected = images(state.range(0))[i];
      room.read(i, [&](Sample& out) {
        data.read(i, out);
        if (out.as<std::int64_t>(1)[0] != expected.label) state.SkipWithError("wrong label");
      });
      if (difference(options, i, expected, room.bytes(0)) != 0) state.SkipWithError("wrong image");
    }
    std::uint64_t next = 0;
    for (auto _ : state) {
      const std::uint64_t i = next++ % kImages;
      room.read(i, [&](Sample& out) { data.read(i, out); });
    }
    count(state);
  }
  std::filesystem::remove_all(name);
}

const ImageOptions kStretch{};
const ImageOptions kCenter{.fit = Fit::kCenterCrop};
const ImageOptions kRandom{.fit = Fit::kRandomResizedCrop, .mirror = 0.5};

ImageOptions scaled(ImageOptions options) {
  options.scaled_decoding = true;
  return options;
}
ImageOptions bilinear(ImageOptions options) {
  options.antialias = false;
  return options;
}

BENCHMARK(decode)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK(resize)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, stretch, kStretch)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, center_crop, kCenter)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, random_crop, kRandom)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, stretch_scaled, scaled(kStretch))
    ->DenseRange(0, 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, center_crop_scaled, scaled(kCenter))
    ->DenseRange(0, 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, random_crop_scaled, scaled(kRandom))
    ->DenseRange(0, 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, stretch_bilinear, bilinear(kStretch))
    ->DenseRange(0, 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(image, stretch_scaled_bilinear, bilinear(scaled(kStretch)))
    ->DenseRange(0, 1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(web_dataset)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);

}  // namespace
