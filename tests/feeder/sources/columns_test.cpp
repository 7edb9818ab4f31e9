// Columns: each Arrow type beside the field that it becomes, wherever its values lie. What is
// refused or damaged: columns_errors_test.cpp.
#include "leat/feeder/sources/columns.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/data/synthetic_images.h"
#include "leat/feeder/sources/columns/arrow_table.h"
#include "leat/feeder/sources/jpeg.h"
#include "leat/feeder/sources/read_image.h"
#include "tests/feeder/sources/arrow_arrays.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace columns_test {

// The dataset of one column "x" of these chunks, and the values of each row.
template <class T>
std::vector<std::vector<T>> rows_of(const std::vector<Arrow>& chunks,
                                    const ColumnsOptions& options = {}, Field* field = nullptr) {
  std::vector<Arrow> tables;
  for (const Arrow& chunk : chunks) tables.push_back(table_of({chunk}));
  ArrowProducer producer(tables);
  const Columns data(producer.stream, options);
  if (field != nullptr) *field = data.fields()[0];
  SampleBuffer sample(data.fields());
  std::vector<std::vector<T>> rows;
  for (std::uint64_t i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    const std::span<const T> values = sample.as<T>(0);
    rows.emplace_back(values.begin(), values.end());
    const Field& own = data.fields()[0];
    const std::size_t length = values.size() * sizeof(T) / own.row_bytes();
    EXPECT_EQ(data.length(i, 0), own.variable_length ? std::optional(length) : std::nullopt);
    data.will_read(i, 0, 0);
  }
  return rows;
}
std::vector<std::string> texts_of(const std::vector<Arrow>& chunks,
                                  const ColumnsOptions& options = {}, Field* field = nullptr) {
  std::vector<std::string> texts;
  for (const auto& row : rows_of<std::uint8_t>(chunks, options, field)) {
    texts.emplace_back(row.begin(), row.end());
  }
  return texts;
}

template <class T>
void expect_scalars(const std::string& format) {
  SCOPED_TRACE(format);
  const std::vector<T> values{static_cast<T>(1), static_cast<T>(200), static_cast<T>(-3),
                              static_cast<T>(4), static_cast<T>(5)};
  // A chunk that begins within its buffer, one without rows, and a whole one.
  Field field;
  const auto rows = rows_of<T>(
      {slice(numbers(format, values), 2, 2), numbers<T>(format, {}), numbers(format, values)}, {},
      &field);
  EXPECT_EQ(field, (Field{"x", kDTypeOf<T>, {}}));
  ASSERT_EQ(rows.size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(rows[i], std::vector<T>{values[i < 2 ? i + 2 : i - 2]});
  }
}

TEST(Columns, NumbersAndTimesAreScalars) {
  expect_scalars<std::int8_t>("c");
  expect_scalars<std::uint8_t>("C");
  expect_scalars<std::int16_t>("s");
  expect_scalars<std::uint16_t>("S");
  expect_scalars<std::int32_t>("i");
  expect_scalars<std::uint32_t>("I");
  expect_scalars<std::int64_t>("l");
  expect_scalars<std::uint64_t>("L");
  expect_scalars<float>("f");
  expect_scalars<double>("g");
  for (const char* const days : {"tdD", "tts", "ttm"}) expect_scalars<std::int32_t>(days);
  for (const char* const times : {"tdm", "ttu", "ttn", "tss:", "tsn:Europe/Berlin", "tDs", "tDn"}) {
    expect_scalars<std::int64_t>(times);
  }
  Field half;
  rows_of<Float16>({numbers<std::uint16_t>("e", {0x3c00})}, {}, &half);
  EXPECT_EQ(half.dtype, DType::kFloat16);
}

TEST(Columns, BitsBecomeBytes) {
  const std::vector<bool> bits{true, false, false, true, true, true, false, true, false, true};
  const Arrow all{"b", 10, {nullptr, bits_of(bits)}};
  const auto rows = rows_of<std::uint8_t>({all, slice(all, 7, 3)});
  for (std::size_t i = 0; i < 13; ++i) EXPECT_EQ(rows[i][0], bits[i < 10 ? i : i - 3] ? 1 : 0);
}

std::vector<std::int32_t> counted(int begin, int end) {
  std::vector<std::int32_t> values;
  for (; begin < end; ++begin) values.push_back(begin);
  return values;
}

// Each level begins somewhere in the one below.
TEST(Columns, FixedListsAreShapes) {
  const Arrow values = slice(numbers("i", counted(0, 40)), 4, 36);
  const Arrow inner = slice(fixed_lists(3, 12, values), 1, 10);
  const Arrow outer = slice(fixed_lists(2, 5, inner), 1, 3);
  Field field;
  const auto rows = rows_of<std::int32_t>({outer}, {}, &field);
  EXPECT_EQ(field.shape, (std::vector<std::int64_t>{2, 3}));
  // Row 0: slot 1 of 5, hence slots 2 and 3, which are 3 and 4 of 12; 9 to 14, which lie 4 further.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[static_cast<std::size_t>(i)], counted(13 + 6 * i, 19 + 6 * i));
  }

  const Arrow bytes{"w:3", 3, {nullptr, text_of("abcdefghi")}};
  EXPECT_EQ(texts_of({slice(bytes, 1, 2)}, {}, &field), (std::vector<std::string>{"def", "ghi"}));
  EXPECT_EQ(field.shape, (std::vector<std::int64_t>{3}));
  const Arrow flags =
      fixed_lists(3, 2, slice({"b", 7, {nullptr, bits_of({0, 1, 1, 0, 0, 0, 1})}}, 1, 6));
  EXPECT_EQ(rows_of<std::uint8_t>({flags}),
            (std::vector<std::vector<std::uint8_t>>{{1, 1, 0}, {0, 0, 1}}));
}

TEST(Columns, ListsHaveTheLongestOfAllChunks) {
  for (const char* const format : {"+l", "+L"}) {
    Field field;
    const Arrow one = lists(format, {2, 2, 5, 6}, slice(numbers("i", counted(0, 8)), 2, 6));
    const Arrow two = lists(format, {4}, numbers("i", counted(20, 24)));
    const auto rows = rows_of<std::int32_t>({slice(one, 1, 3), two}, {}, &field);
    EXPECT_EQ(rows, (std::vector<std::vector<std::int32_t>>{{}, {4, 5, 6}, {7}, {20, 21, 22, 23}}));
    EXPECT_EQ(field, (Field{"x", DType::kInt32, {4}, true}));
    // Of fixed lists, and of bools.
    const Arrow pairs = lists(format, {1, 3}, fixed_lists(2, 3, numbers("i", counted(0, 6))));
    EXPECT_EQ(rows_of<std::int32_t>({slice(pairs, 1, 1)}, {}, &field)[0], counted(2, 6));
    EXPECT_EQ(field, (Field{"x", DType::kInt32, {2, 2}, true}));
    const Arrow flags = lists(format, {1, 3}, {"b", 3, {nullptr, bits_of({1, 0, 1})}});
    EXPECT_EQ(rows_of<std::uint8_t>({flags})[1], (std::vector<std::uint8_t>{0, 1}));
  }
  // Without a value, and without a row.
  Field field;
  rows_of<std::int32_t>({lists("+l", {0, 0}, numbers<std::int32_t>("i", {}))}, {}, &field);
  EXPECT_EQ(field.shape[0], 1);
  rows_of<std::int32_t>({lists("+l", {}, numbers<std::int32_t>("i", {}))}, {}, &field);
  EXPECT_EQ(field.shape[0], 1);
}

TEST(Columns, StringsAreBytesOfVariableLength) {
  const std::vector<std::string> texts{
      "one",         "", "three and more than twelve", "four", "another that is long enough",
      "twelve bytes"};
  for (const char* const format : {"u", "z", "U", "Z", "vu", "vz"}) {
    SCOPED_TRACE(format);
    const Arrow all = format[0] == 'v' ? views(format, texts) : strings(format, texts);
    Field field;
    EXPECT_EQ(texts_of({all}, {}, &field), texts);
    EXPECT_EQ(field, (Field{"x", DType::kUint8, {27}, true}));
    EXPECT_EQ(texts_of({slice(all, 2, 2), slice(all, 5, 1)}, {}, &field),
              (std::vector<std::string>{texts[2], texts[3], texts[5]}));
    EXPECT_EQ(field.shape[0], 26);
  }
}

// The first chunk's order, then what others add. A dictionary may be exported twice.
TEST(Columns, CodesOfAllChunksStandForTheSame) {
  const Arrow ba = strings("u", {"b", "a"});
  const Arrow acb = strings("u", {"a", "c", "b"});
  std::vector<Arrow> tables;
  for (const Arrow& chunk : {codes(numbers<std::int32_t>("i", {0, 1, 1}), ba),
                             codes(numbers<std::int32_t>("i", {1}), ba),
                             codes(slice(numbers<std::int32_t>("i", {9, 0, 1, 2}), 1, 3), acb)}) {
    tables.push_back(table_of({chunk}));
  }
  ArrowProducer producer(tables);
  const Columns data(producer.stream);
  SampleBuffer sample(data.fields());
  std::vector<std::int32_t> found;
  for (std::uint64_t i = 0; i < data.size(); ++i) {
    data.read(i, sample);
    found.push_back(sample.as<std::int32_t>(0)[0]);
  }
  EXPECT_EQ(found, (std::vector<std::int32_t>{0, 1, 1, 1, 1, 2, 0}));
  const std::span<const std::string> categories = data.categories(0);
  EXPECT_EQ(std::vector(categories.begin(), categories.end()),
            (std::vector<std::string>{"b", "a", "c"}));
  // Of views and of numbers, in the type of the indices.
  EXPECT_EQ(rows_of<std::int8_t>({codes(numbers<std::int8_t>("c", {1, 0}), views("vu", {"p", "q"})),
                                  codes(numbers<std::int8_t>("c", {0}), views("vu", {"q"}))})[2],
            std::vector<std::int8_t>{1});
  EXPECT_EQ(rows_of<std::uint16_t>(
                {codes(numbers<std::uint16_t>("S", {0}), numbers<double>("g", {.5})),
                 codes(numbers<std::uint16_t>("S", {0}), numbers<double>("g", {.25}))})[1],
            std::vector<std::uint16_t>{1});
}

TEST(Columns, ListsOfOneShapeMayBeGivenIt) {
  const Arrow rows = lists("+l", {2, 4, 6}, slice(numbers("i", counted(0, 8)), 2, 6));
  const Arrow arrays = lists("+L", {1, 3}, slice(rows, 0, 3));
  Field field;
  EXPECT_EQ(rows_of<std::int32_t>({slice(arrays, 1, 1)}, {.shapes = {{"x", {2, 2}}}}, &field)[0],
            counted(4, 8));
  EXPECT_EQ(field, (Field{"x", DType::kInt32, {2, 2}}));
  // One list, and a fixed list that is of several dimensions.
  EXPECT_EQ(rows_of<std::int32_t>({slice(rows, 1, 2)}, {.shapes = {{"x", {2}}}}, &field)[1],
            counted(6, 8));
  EXPECT_FALSE(field.variable_length);
  rows_of<std::int32_t>({fixed_lists(6, 1, numbers("i", counted(0, 6)))},
                        {.shapes = {{"x", {3, 2}}}}, &field);
  EXPECT_EQ(field.shape, (std::vector<std::int64_t>{3, 2}));
}

TEST(Columns, AStructOfBytesAndPathIsAnImage) {
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const std::vector<std::byte> jpeg = encode_jpeg(synthetic_image(1, i, 20, 10), 20, 10);
    files.emplace_back(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
  }
  const ImageOptions exact{.height = 10, .width = 20, .fit = Fit::kExact};
  for (const Arrow& bytes : {strings("z", files), views("vz", files)}) {
    const Arrow image{
        "+s", 1, {nullptr}, {named("path", strings("u", files)), named("bytes", bytes)}, 1};
    Field field;
    const auto rows = rows_of<std::uint8_t>({image}, {.images = {{"x", exact}}}, &field);
    EXPECT_EQ(field, image_field("x", exact));
    SampleBuffer expected(std::span(&field, 1));
    JpegDecoder decoder;
    read_image(std::as_bytes(std::span(files[1])), exact, decoder, expected, 0);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_TRUE(equal(std::span<const std::uint8_t>(rows[0]), expected.as<std::uint8_t>(0)));
    // A column of binary alone, if it is named; a struct without being named, as ImageOptions say.
    EXPECT_EQ(rows_of<std::uint8_t>({slice(bytes, 1, 1)}, {.images = {{"x", exact}}}), rows);
    rows_of<std::uint8_t>({slice(image, 1, 0)}, {}, &field);
    EXPECT_EQ(field, image_field("x", {}));
  }
}

TEST(Columns, AFillTakesThePlaceOfNulls) {
  const Arrow numbers_ =
      with_nulls(slice(numbers<std::int16_t>("s", {1, 2, 3, 4}), 1, 3), {1, 0, 1});
  EXPECT_EQ(rows_of<std::int16_t>({numbers_}, {.fill = {{"x", -7}}}),
            (std::vector<std::vector<std::int16_t>>{{2}, {-7}, {4}}));
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(rows_of<std::uint64_t>({with_nulls(numbers<std::uint64_t>("L", {5}), {0})},
                                   {.fill = {{"x", kMost}}}),
            (std::vector<std::vector<std::uint64_t>>{{kMost}}));
  const Arrow flags = with_nulls({"b", 3, {nullptr, bits_of({1, 1, 0})}}, {1, 0, 1});
  EXPECT_EQ(rows_of<std::uint8_t>({flags}, {.fill = {{"x", 9}}}),
            (std::vector<std::vector<std::uint8_t>>{{1}, {9}, {0}}));
  const Arrow halves = with_nulls(numbers<std::uint16_t>("e", {0, 0}), {1, 0});
  for (const auto& [value, bits] :
       std::vector<std::pair<double, std::uint16_t>>{{1, 0x3c00},
                                                     {-2.5, 0xc100},
                                                     {65'504, 0x7bff},
                                                     {65'520, 0x7c00},
                                                     {0x1p-24, 1},
                                                     {0x1p-14, 0x0400},
                                                     {0x1.ff8p-15, 0x03ff},
                                                     {2049, 0x6800},
                                                     {2051, 0x6802},
                                                     {0.0, 0},
                                                     {-0.0, 0x8000}}) {
    EXPECT_EQ(rows_of<Float16>({halves}, {.fill = {{"x", value}}})[1][0].bits, bits) << value;
  }
  // Nulls of whole fixed lists, and within them.
  const Arrow pairs = with_nulls(
      fixed_lists(2, 3, with_nulls(numbers("i", counted(0, 6)), {1, 1, 1, 0, 1, 1})), {0, 1, 1});
  EXPECT_EQ(rows_of<std::int32_t>({slice(pairs, 0, 2), slice(pairs, 2, 1)}, {.fill = {{"x", 8}}}),
            (std::vector<std::vector<std::int32_t>>{{8, 8}, {2, 8}, {4, 5}}));
  // A row of variable length becomes empty; within one, a value.
  const Arrow values = with_nulls(slice(numbers("i", counted(0, 7)), 1, 6), {1, 1, 1, 0, 1, 1});
  const Arrow some = with_nulls(lists("+l", {2, 3, 6}, values), {1, 0, 1});
  EXPECT_EQ(rows_of<std::int32_t>({some, slice(some, 2, 1)}, {.fill = {{"x", 0}}}),
            (std::vector<std::vector<std::int32_t>>{{1, 2}, {}, {0, 5, 6}, {0, 5, 6}}));
  for (const Arrow& text : {strings("u", {"a", "b"}), views("vu", {"a", "b"})}) {
    EXPECT_EQ(texts_of({with_nulls(text, {0, 1})}, {.fill = {{"x", 0}}}),
              (std::vector<std::string>{"", "b"}));
  }
  // The code of a null is no code.
  const Arrow coded =
      codes(with_nulls(numbers<std::int32_t>("i", {1, 77}), {1, 0}), strings("u", {"a", "b"}));
  EXPECT_EQ(rows_of<std::int32_t>({coded}, {.fill = {{"x", -1}}}),
            (std::vector<std::vector<std::int32_t>>{{1}, {-1}}));
  // A bitmap without nulls needs no fill.
  EXPECT_EQ(rows_of<std::int32_t>(
                {with_nulls(numbers("i", counted(0, 200)), std::vector<bool>(200, true))})
                .size(),
            200U);
}

// A struct array that begins within its columns: a slice of a record batch.
TEST(Columns, SeveralThreadsReadTheRowsOfSlicedTables) {
  Arrow one = table_of(
      {named("a", numbers("i", counted(0, 10))),
       named("b",
             slice(strings("u", {"", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}), 1, 10))});
  one = slice(one, 3, 5);
  const Arrow two =
      table_of({named("a", numbers("i", counted(50, 52))), named("b", strings("u", {"x", "yy"}))});
  ArrowProducer producer({one, two});
  const Columns data(producer.stream, {.name = "mine"});
  EXPECT_EQ(data.name(), "mine");
  EXPECT_EQ(data.blocking(), Blocking::kNever);
  EXPECT_EQ(data.announce(0, 0, 0), 0U);
  ASSERT_EQ(data.size(), 7U);
  const std::vector<std::string> texts{"d", "e", "f", "g", "h", "x", "yy"};
  from_several_threads(7, [&](std::uint64_t i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_EQ(sample.as<std::int32_t>(0)[0], static_cast<int>(i < 5 ? 3 + i : 45 + i));
    const std::span<const std::uint8_t> text = sample.as<std::uint8_t>(1);
    EXPECT_EQ(std::string(text.begin(), text.end()), texts[i]);
  });
}

TEST(Columns, AnArrayOfNoStructIsOneColumn) {
  ArrowProducer producer({named("", numbers("i", counted(0, 3)))});
  const Columns data(producer.stream);
  EXPECT_EQ(data.fields()[0].name, "values");
  EXPECT_EQ(data.size(), 3U);
}

TEST(Columns, RowsMayBeAnotherTables) {
  ArrowProducer table(
      {table_of({numbers("i", counted(0, 3))}), table_of({numbers("i", counted(10, 13))})});
  ArrowProducer rows({table_of({numbers<std::uint64_t>("L", {5, 0, 0})}),
                      table_of({numbers<std::uint64_t>("L", {3})}),
                      table_of({numbers<std::uint64_t>("L", {6})})});
  auto of = [](ArrowProducer& producer) {
    auto fetched = std::make_shared<ArrowTable>(producer.stream);
    fetched->fetch("test");
    return fetched;
  };
  const Columns data(of(table), of(rows), {});
  ASSERT_EQ(data.size(), 5U);
  SampleBuffer sample(data.fields());
  std::vector<std::int32_t> found;
  for (std::uint64_t i = 0; i < 4; ++i) {
    data.read(i, sample);
    found.push_back(sample.as<std::int32_t>(0)[0]);
  }
  EXPECT_EQ(found, (std::vector<std::int32_t>{12, 0, 0, 10}));
  data.will_read(4, 0, 0);
  expect_contains(error_of([&] { data.read(4, sample); }),
                  {"sample 4", "row 6 of a table that has 6"});
}

}  // namespace columns_test
}  // namespace leat::feeder
