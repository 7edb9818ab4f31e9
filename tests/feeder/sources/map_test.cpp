// Transforms on the host.
#include "leat/feeder/map.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/sources/function.h"
#include "leat/feeder/sources/memory.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace map_test {

const std::vector<Field> kNumber = {{"number", DType::kInt64, {}}};

FunctionDataset numbers(std::uint64_t size = 100) {
  return {"numbers", kNumber, size, [](std::uint64_t index, Sample& out) {
            out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
          }};
}

std::int64_t number(const Dataset& data, std::uint64_t index, std::uint64_t epoch = 0) {
  SampleBuffer sample(data.fields(), 1, epoch, index);
  data.read(index, sample);
  return sample.as<std::int64_t>(0)[0];
}

// A sample of one field of variable length: index + 1 rows of two.
class Rows final : public Dataset {
 public:
  explicit Rows(bool tells_length) : tells_length_(tells_length) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "rows"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 8; }
  void read(std::uint64_t index, Sample& out) const override {
    out.set_length(0, index + 1);
    const std::span<std::int32_t> values = out.as<std::int32_t>(0).first(2 * (index + 1));
    std::iota(values.begin(), values.end(), static_cast<std::int32_t>(index));
  }
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kOften; }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index, std::size_t) const override {
    return tells_length_ ? std::optional<std::size_t>(index + 1) : std::nullopt;
  }

 private:
  bool tells_length_;
  std::vector<Field> fields_{
      {.name = "rows", .dtype = DType::kInt32, .shape = {8, 2}, .variable_length = true}};
};

TEST(Map, MakesAnotherSampleOfEach) {
  const FunctionDataset from = numbers();
  const Map data(from, {{"half", DType::kFloat32, {}}, {"twice", DType::kInt64, {2}}},
                 [](const SampleView& in, Sample& out) {
                   ASSERT_EQ(in.fields().size(), 1U);
                   const std::int64_t value = in.as<std::int64_t>(0)[0];
                   out.as<float>(0)[0] = static_cast<float>(value) / 2;
                   for (std::int64_t& to : out.as<std::int64_t>(1)) to = value;
                 });
  EXPECT_EQ(data.name(), "numbers, mapped");
  EXPECT_EQ(data.size(), 100U);
  EXPECT_EQ(data.blocking(), Blocking::kNever);
  ASSERT_EQ(data.fields().size(), 2U);
  from_several_threads(100, [&](std::uint64_t i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_EQ(sample.as<float>(0)[0], static_cast<float>(i) / 2);
    EXPECT_EQ(sample.as<std::int64_t>(1)[1], static_cast<std::int64_t>(i));
  });
}

TEST(Map, InPlaceReadsStraightIntoTheRoom) {
  const std::byte* read_at = nullptr;
  const FunctionDataset from("places", kNumber, 1, [&](std::uint64_t, Sample& out) {
    read_at = out.bytes(0).data();
    out.as<std::int64_t>(0)[0] = 20;
  });
  const Map data(from, [](Sample& sample) { ++sample.as<std::int64_t>(0)[0]; });
  EXPECT_EQ(data.fields()[0], kNumber[0]);
  SampleBuffer sample(data.fields());
  data.read(0, sample);
  EXPECT_EQ(sample.as<std::int64_t>(0)[0], 21);
  EXPECT_EQ(read_at, sample.bytes(0).data());
}

TEST(Map, MapsNest) {
  const FunctionDataset from = numbers();
  const Map twice(from, [](Sample& sample) { sample.as<std::int64_t>(0)[0] *= 2; });
  const Map as_float(twice, {{"f", DType::kFloat64, {}}}, [](const SampleView& in, Sample& out) {
    out.as<double>(0)[0] = static_cast<double>(in.as<std::int64_t>(0)[0]);
  });
  const Map back(as_float, kNumber, [](const SampleView& in, Sample& out) {
    out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(in.as<double>(0)[0]) + 1;
  });
  EXPECT_EQ(back.name(), "numbers, mapped, mapped, mapped");
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(number(back, i), static_cast<std::int64_t>(2 * i + 1));
  }
}

TEST(Map, RandomNumbersFollowFromSampleAndEpochAndAreDrawnOnce) {
  const FunctionDataset from("random", kNumber, 10, [](std::uint64_t, Sample& out) {
    out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(out.random()());
  });
  const std::vector<Field> three = {{"drawn", DType::kInt64, {3}}};
  const Map outer(from, three, [](const SampleView& in, Sample& out) {
    out.as<std::int64_t>(0)[0] = in.as<std::int64_t>(0)[0];
    out.as<std::int64_t>(0)[1] = static_cast<std::int64_t>(out.random()());
  });
  const Map outermost(outer, [](Sample& sample) {
    sample.as<std::int64_t>(0)[2] = static_cast<std::int64_t>(sample.random()());
  });
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      SampleBuffer sample(outermost.fields(), 1, epoch, i);
      outermost.read(i, sample);
      Random expected(1, epoch, i);
      for (const std::int64_t drawn : sample.as<std::int64_t>(0)) {
        EXPECT_EQ(static_cast<std::uint64_t>(drawn), expected());
      }
    }
  }
}

TEST(Map, TransformSeesTheEpoch) {
  const FunctionDataset from = numbers();
  const Map data(from, kNumber, [](const SampleView&, Sample& out) {
    out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(out.epoch());
  });
  EXPECT_EQ(number(data, 0, 5), 5);
}

TEST(Map, TransformSeesAsMuchAsTheSampleHas) {
  const Rows from(true);
  const Map sums(from, kNumber, [](const SampleView& in, Sample& out) {
    EXPECT_EQ(in.as<std::int32_t>(0).size(), 2 * in.length(0));
    EXPECT_EQ(in.bytes(0).size(), 8 * in.length(0));
    EXPECT_THROW(static_cast<void>(in.as<float>(0)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(in.bytes(1)), std::out_of_range);
    const std::span<const std::int32_t> values = in.as<std::int32_t>(0);
    out.as<std::int64_t>(0)[0] = std::accumulate(values.begin(), values.end(), std::int64_t{0});
  });
  EXPECT_EQ(sums.blocking(), Blocking::kOften);
  EXPECT_EQ(sums.length(3, 0), std::nullopt);
  for (std::int64_t i = 0; i < 8; ++i) {
    const std::int64_t n = 2 * (i + 1);
    EXPECT_EQ(number(sums, static_cast<std::uint64_t>(i)), n * i + n * (n - 1) / 2);
  }
}

TEST(Map, InPlaceForwardsLengthsAndMayOnlyChangeThoseThatWereNotPromised) {
  const Rows told(true);
  const Rows untold(false);
  const auto shorten = [](Sample& sample) { sample.set_length(0, 1); };
  const Map same(told, [](Sample& sample) { ++sample.as<std::int32_t>(0)[0]; });
  EXPECT_EQ(same.length(3, 0), std::optional<std::size_t>(4));
  SampleBuffer sample(same.fields());
  same.read(3, sample);
  EXPECT_EQ(sample.as<std::int32_t>(0).size(), 8U);
  EXPECT_EQ(sample.as<std::int32_t>(0)[0], 4);

  const Map shorter(untold, shorten);
  EXPECT_EQ(shorter.length(3, 0), std::nullopt);
  shorter.read(3, sample);
  EXPECT_EQ(sample.as<std::int32_t>(0).size(), 2U);

  const Map broken(told, shorten);
  expect_contains(error_of([&] { broken.read(3, sample); }),
                  {"transform of sample 3 of dataset \"rows\" changed the length of field \"rows\" "
                   "from 4 to 1"});
}

TEST(Map, WhatATransformThrowsIsNestedInATransformError) {
  const FunctionDataset from = numbers();
  const auto fails = [](std::int64_t value) {
    if (value == 3) throw std::domain_error("three");
    if (value == 4) throw 4;  // NOLINT(misc-throw-by-value-catch-by-reference)
  };
  const Map converting(from, kNumber,
                       [&](const SampleView& in, Sample&) { fails(in.as<std::int64_t>(0)[0]); });
  const Map in_place(from, [&](Sample& sample) { fails(sample.as<std::int64_t>(0)[0]); });
  for (const Map* data : {&converting, &in_place}) {
    SampleBuffer sample(data->fields());
    EXPECT_NO_THROW(data->read(2, sample));
    expect_contains(error_of([&] { data->read(3, sample); }),
                    {"transform of sample 3 of dataset \"numbers\" failed: three; "});
    expect_contains(error_of([&] { data->read(4, sample); }), {"failed: unknown exception"});
    try {
      data->read(3, sample);
      ADD_FAILURE() << "it did not throw";
    } catch (const TransformError& error) {
      EXPECT_THROW(std::rethrow_if_nested(error), std::domain_error);
    }
  }
}

TEST(Map, WhatReadingThrowsIsNoTransformError) {
  const FunctionDataset from(
      "bad", kNumber, 1, [](std::uint64_t, Sample&) { throw std::domain_error("cannot be read"); });
  const Map inner(from, [](Sample&) {});
  const Map outer(inner, kNumber, [](const SampleView&, Sample&) {});
  SampleBuffer sample(outer.fields());
  EXPECT_THROW(outer.read(0, sample), std::domain_error);

  const FunctionDataset good = numbers();
  const Map fails(good, [](Sample&) { throw std::domain_error("inner"); });
  const Map over(fails, kNumber, [](const SampleView&, Sample&) {});
  const std::string text = error_of([&] { over.read(0, sample); });
  expect_contains(text, {"transform of sample 0 of dataset \"numbers\" failed: inner"});
  EXPECT_EQ(text.find("mapped"), std::string::npos) << "told twice: " << text;
}

TEST(Map, CancelledPasses) {
  const FunctionDataset from = numbers();
  const Map converting(from, kNumber, [](const SampleView&, Sample&) { throw Cancelled(); });
  const Map in_place(from, [](Sample&) { throw Cancelled(); });
  SampleBuffer sample(kNumber);
  EXPECT_THROW(converting.read(0, sample), Cancelled);
  EXPECT_THROW(in_place.read(0, sample), Cancelled);
}

TEST(Map, WithoutAFunctionIsACallersError) {
  const FunctionDataset from = numbers();
  EXPECT_THROW(Map(from, kNumber, nullptr), std::invalid_argument);
  EXPECT_THROW(Map(from, Map::InPlace()), std::invalid_argument);
}

}  // namespace map_test
}  // namespace leat::feeder
