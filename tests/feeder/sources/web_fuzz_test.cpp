// Damaged shards and images: a leat::Error or a sample, and nothing else. Under AddressSanitizer
// most of what could go wrong would be seen.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bench/data/synthetic_web.h"
#include "leat/feeder/random.h"
#include "leat/feeder/sources/image.h"
#include "leat/feeder/sources/read_image.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace web_fuzz_test {

constexpr int kRounds = 600;

// Flips bits, overwrites, cuts out or doubles some bytes, in 1 to 4 places.
template <class Vector>
void damage(Vector& bytes, Random& random) {
  using Byte = typename Vector::value_type;
  for (std::uint64_t i = 1 + random.below(4); i > 0 && !bytes.empty(); --i) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(bytes.size()));
    const auto rest = bytes.size() - static_cast<std::size_t>(at);
    const auto length = static_cast<std::ptrdiff_t>(random.below(std::min<std::size_t>(rest, 64)));
    const auto place = bytes.begin() + at;
    switch (random.below(12)) {
      case 0: bytes.erase(place, place + length); break;
      case 1: {
        const Vector copy(place, place + length);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size())),
                     copy.begin(), copy.end());
        break;
      }
      case 2: *place = static_cast<Byte>(0xff); break;
      case 3: *place = static_cast<Byte>(random()); break;
      default: *place = static_cast<Byte>(static_cast<unsigned>(*place) ^ (1U << random.below(8)));
    }
  }
}

TEST(WebFuzz, ADamagedImageIsAnErrorOrAnImage) {
  Random random(1, 0, 0);
  const std::vector<JpegEncoding> encodings = {{},
                                               {.chroma_rows = 1},
                                               {.progressive = true},
                                               {.restart_rows = 1},
                                               {.color = JpegColor::kGray},
                                               {.color = JpegColor::kCmyk}};
  JpegDecoder strict;
  JpegDecoder lenient({.max_pixels = 1 << 22, .accept_corrupt = true});
  int errors = 0;
  for (int i = 0; i < kRounds; ++i) {
    const JpegEncoding& encoding = encodings[static_cast<std::size_t>(i) % encodings.size()];
    auto bytes = encode_jpeg(synthetic_image(1, 0, 70, 50), 70, 50, encoding);
    damage(bytes, random);
    const ImageOptions options{.height = 24,
                               .width = 20,
                               .fit = i % 2 == 0 ? Fit::kRandomResizedCrop : Fit::kStretch,
                               .antialias = i % 5 != 0,
                               .scaled_decoding = i % 3 == 0};
    const std::vector<Field> fields = {image_field("image", options)};
    for (JpegDecoder* const decoder : {&strict, &lenient}) {
      SampleBuffer sample(fields, 1, 0, static_cast<std::uint64_t>(i));
      try {
        read_image(bytes, options, *decoder, sample, 0);
      } catch (const Error&) {
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, kRounds / 10);
  EXPECT_LT(errors, 2 * kRounds);
}

TEST(WebFuzz, ADamagedShardIsAnErrorOrSamples) {
  const TemporaryDirectory directory;
  const SyntheticWebOptions small{
      .samples = 4, .min_width = 8, .max_width = 16, .min_height = 8, .max_height = 16};
  const Bytes written = read_bytes(write_synthetic_web(directory.path(), small)[0]);
  const std::string long_name = std::string(150, 'n') + ".cls";
  const std::string record = " path=" + long_name + "\n";
  const Bytes original =
      tar_file("x", std::to_string(record.size() + 3) + record, 'x') + tar_file("cut", "1") +
      tar_file("././@LongLink", "2" + long_name + '\0', 'L') + tar_file("cut", "2") +
      tar_file("soft.cls", "3") + tar_link("hard.cls", "soft.cls") +
      tar_link("hard.json", "soft.cls", 600) + written;
  Random random(2, 0, 0);
  int errors = 0;
  int samples = 0;
  for (int i = 0; i < kRounds; ++i) {
    Bytes bytes = original;
    damage(bytes, random);
    if (i % 2 == 0) {  // headers get past their checksums
      for (std::size_t at = 0; at + kTarBlock <= bytes.size(); at += kTarBlock) {
        if (std::memcmp(bytes.data() + at + 257, "ustar", 5) != 0) continue;
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        if (random.below(40) == 0) begin[124 + static_cast<std::ptrdiff_t>(random.below(12))] ^= 1;
        const Bytes header = with_checksum(Bytes(begin, begin + kTarBlock));
        std::copy(header.begin(), header.end(), begin);
      }
    }
    const std::filesystem::path shard = directory.write("damaged.tar", bytes);
    try {
      const WebDataset data(
          {shard}, {.parts = {class_label("label"), jpeg_image("image", {.height = 8, .width = 8}),
                              raw_bytes({"json", DType::kUint8, {100}, true}, {"json"})},
                    .skip_incomplete = i % 4 != 3});
      for (std::uint64_t s = 0; s < data.size(); ++s) {
        SampleBuffer sample(data.fields());
        try {
          data.read(s, sample);
          ++samples;
        } catch (const Error&) {
          ++errors;
        }
      }
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, kRounds / 4);
  EXPECT_GT(samples, kRounds / 10);
}

}  // namespace web_fuzz_test
}  // namespace leat::feeder
