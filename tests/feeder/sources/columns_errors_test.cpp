// Columns of bad input: what no field can be, what does not fit, and memory that is not what it
// was.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/sources/columns.h"
#include "tests/feeder/sources/arrow_arrays.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace columns_errors_test {

// What opening a table says. Nothing is left unreleased.
std::string error(std::vector<Arrow> chunks, const ColumnsOptions& options = {}) {
  ArrowProducer producer(std::move(chunks));
  std::string text = error_of([&] { const Columns data(producer.stream, options); });
  EXPECT_EQ(producer.alive, 0);
  return text;
}
std::string refusal(Arrow column, const ColumnsOptions& options = {}) {
  ArrowProducer producer({table_of({std::move(column)})});
  try {
    const Columns data(producer.stream, options);
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  return "nothing";
}
const Arrow kInts = numbers<std::int32_t>("i", {1, 2, 3, 4, 5, 6});

TEST(ColumnsErrors, TypesThatAreNoFieldAreNamed) {
  const auto of = [](const std::string& format, std::vector<Arrow> children = {}) {
    return error({table_of({{format, 0, {nullptr, nullptr}, std::move(children)}})});
  };
  expect_contains(of("n"), {"cannot read column \"x\" of columns: ", "null (\"n\")"});
  expect_contains(of("d:19,10"), {"decimal (\"d:19,10\")"});
  expect_contains(of("+ud:0,1"), {"union (\"+ud:0,1\")"});
  expect_contains(of("+us:0,1"), {"union (\"+us:0,1\")"});
  expect_contains(of("+m", {kInts}), {"map (\"+m\")"});
  expect_contains(of("+r", {kInts, kInts}), {"run-end encoded (\"+r\")"});
  expect_contains(of("+vl", {kInts}), {"list view (\"+vl\")"});
  expect_contains(of("tiM"), {"interval (\"tiM\")"});
  expect_contains(of("+s", {kInts}), {"struct (\"+s\")", "{bytes, path}"});
  expect_contains(of("?\n"), {"\"??\""});
  expect_contains(of("+w:0", {kInts}), {"\"+w:0\"", "no values"});
  expect_contains(of("+l", {strings("u", {})}), {"lists of the type \"u\""});
  expect_contains(of("+l", {lists("+L", {}, kInts)}),
                  {"large list (\"+L\"), within lists", "shapes"});
  expect_contains(of("+w:2", {lists("+l", {}, kInts)}), {"list (\"+l\"), within lists"});
  expect_contains(of("+l", {codes(kInts, kInts)}), {"lists of codes"});
  expect_contains(error({table_of({codes(kInts, lists("+l", {1}, kInts))})}),
                  {"dictionary has values of the type list (\"+l\")"});
  const Arrow flags{"b", 2, {nullptr, bits_of({1, 0})}};
  expect_contains(error({table_of({codes(kInts, flags)})}),
                  {"dictionary has bools", "cast it to bool"});
  for (const Arrow& bad :
       {flags, lists("+l", {1}, kInts), strings("u", {"a"}), numbers<float>("f", {0})}) {
    expect_contains(error({table_of({codes(bad, strings("u", {"a"}))})}),
                    {"codes of its dictionary", "no integer"});
  }
}

TEST(ColumnsErrors, NullsAreNamedByColumnAndRow) {
  const Arrow null = with_nulls(kInts, {1, 1, 1, 1, 1, 0});
  expect_contains(error({table_of({kInts}), table_of({null})}, {.name = "mine"}),
                  {"column \"x\" of mine: row 11 is null; ", "fill"});
  Arrow told = null;
  told.null_count = 1;
  expect_contains(error({table_of({slice(told, 4, 2)})}), {"row 1 is null"});
  expect_contains(error({table_of({fixed_lists(2, 3, null)})}), {"row 2 has a null"});
  expect_contains(error({table_of({slice(lists("+l", {1, 1, 4, 6}, null), 1, 3)})}),
                  {"row 2 has a null"});
  expect_contains(error({table_of({with_nulls(views("vu", {"a"}), {0})})}), {"row 0 is null"});
  expect_contains(error({table_of({codes(kInts, with_nulls(strings("u", {"a", "b"}), {1, 0}))})}),
                  {"of the dictionaries of columns: row 1 is null"});
  const Arrow image{
      "+s", 2, {nullptr}, {named("bytes", with_nulls(strings("z", {"a", "b"}), {1, 0}))}};
  expect_contains(error({table_of({image})}), {"row 1 is null; leave such rows out"});
  // Those that a slice leaves out, and what is said not to be there, is not looked at.
  ArrowProducer none({table_of({slice(null, 0, 5)})});
  EXPECT_EQ(Columns(none.stream).size(), 5U);
  // A table of structs that are null themselves.
  Arrow structs = table_of({kInts});
  structs.null_count = 1;
  structs.buffers[0] = bits_of({1, 1, 1, 1, 1, 0});
  expect_contains(error({structs}), {"chunk 0 of columns", "structs that may be null"});
}

TEST(ColumnsErrors, OptionsThatDoNotFitNameTheColumn) {
  expect_contains(refusal(kInts, {.fill = {{"y", 0}}}), {"no column \"y\"", "fill"});
  expect_contains(refusal(kInts, {.shapes = {{"y", {2}}}}), {"no column \"y\"", "shapes"});
  expect_contains(refusal(kInts, {.images = {{"y", {}}}}), {"no column \"y\"", "images"});
  expect_contains(refusal(kInts, {.fill = {{"x", 0.5}}}),
                  {"fill of column \"x\", 0.5", "no int32"});
  expect_contains(refusal(kInts, {.fill = {{"x", std::int64_t{1} << 31}}}), {"no int32"});
  expect_contains(refusal(numbers<std::uint8_t>("C", {}), {.fill = {{"x", -1}}}), {"no uint8"});
  expect_contains(refusal(numbers<std::int64_t>("l", {}), {.fill = {{"x", 0x1p63}}}), {"no int64"});
  EXPECT_EQ(refusal(numbers<std::int64_t>("l", {}),
                    {.fill = {{"x", std::numeric_limits<std::int64_t>::max()}}}),
            "nothing");
  expect_contains(
      refusal(numbers<std::int64_t>("l", {}), {.fill = {{"x", std::uint64_t{1} << 63}}}),
      {"9223372036854775808, is no int64"});
  expect_contains(refusal(kInts, {.shapes = {{"x", {2}}}}),
                  {"shape of column \"x\" has 2 values", "has 1"});
  expect_contains(refusal(fixed_lists(3, 2, kInts), {.shapes = {{"x", {2}}}}),
                  {"has 2 values", "has 3"});
  expect_contains(refusal(kInts, {.shapes = {{"x", {0}}}}), {"extent below 1"});
  expect_contains(refusal(strings("u", {}), {.shapes = {{"x", {2}}}}), {"no lists"});
  expect_contains(error({table_of({kInts})}, {.images = {{"x", {}}}}),
                  {"images are binary", "\"i\""});
  expect_contains(error({table_of({lists("+l", {2, 4, 5}, kInts)})}, {.shapes = {{"x", {2}}}}),
                  {"row 2 has a list of 1, where the shape says 2"});
  expect_contains(error({table_of({lists("+l", {2, 3}, lists("+l", {2, 4, 5}, kInts))})},
                        {.shapes = {{"x", {2, 2}}}}),
                  {"row 1 has a list of 1, where the shape says 2"});
  ArrowProducer twice({table_of({kInts, kInts})});
  EXPECT_THROW(Columns{twice.stream}, std::invalid_argument);
  ArrowProducer nothing({table_of({})});
  EXPECT_THROW(Columns{nothing.stream}, std::invalid_argument);
}

TEST(ColumnsErrors, AStreamThatFailsIsToldWithItsText) {
  ArrowProducer middle({table_of({kInts}), table_of({kInts})});
  middle.fails_at = 1;
  expect_contains(error_of([&] { const Columns data(middle.stream, {.name = "mine"}); }),
                  {"cannot read mine: the Arrow stream failed at its chunk 1, behind 6 rows: the "
                   "disk is gone; "});
  EXPECT_EQ(middle.alive, 0);
  ArrowProducer start({table_of({kInts})});
  start.fails_at_schema = true;
  start.error = nullptr;
  expect_contains(error_of([&] { const Columns data(start.stream); }),
                  {"at its schema: Input/output error"});
  EXPECT_EQ(start.alive, 0);
  EXPECT_THROW(Columns{start.stream}, std::invalid_argument);  // it was moved
}

TEST(ColumnsErrors, ChunksThatDoNotFitTheSchemaAreNamed) {
  expect_contains(error({table_of({kInts}), table_of({kInts, kInts})}),
                  {"chunk 1 of columns: it has 2 columns, and the schema 1"});
  const auto of = [](Arrow good, Arrow bad) {
    good.name = bad.name = "x";
    Arrow wrong = table_of({bad});
    wrong.length = 4;
    return error({table_of({std::move(good)}), wrong});
  };
  const std::string text = "chunk 1, from row 6 on, does not fit the stream's schema";
  expect_contains(of(kInts, slice(kInts, 0, 3)), {text});
  expect_contains(of(kInts, {"i", 4, {nullptr}}), {text});
  expect_contains(of(kInts, {"i", 4, {nullptr, nullptr}}), {text});
  const Arrow pairs = fixed_lists(1, 6, kInts);
  expect_contains(of(pairs, {"+w:1", 4, {nullptr}}), {text});
  expect_contains(of(pairs, fixed_lists(1, 4, slice(kInts, 0, 3))), {text});
  expect_contains(of(codes(kInts, kInts), kInts), {text});
}

TEST(ColumnsErrors, OffsetsThatLeadOutOfTheValuesAreDamage) {
  const auto with = [](Arrow array, std::vector<std::int32_t> offsets) {
    array.buffers[1] = buffer_of(offsets);
    return error({table_of({std::move(array)})});
  };
  const Arrow list = lists("+l", {1, 2, 3}, kInts);
  expect_contains(with(list, {0, 2, 1, 3}), {"row 1 is damaged"});
  expect_contains(with(list, {0, 1, 2, 7}), {"row 2 is damaged"});
  expect_contains(with(list, {-1, 1, 2, 3}), {"row 0 is damaged"});
  expect_contains(with(strings("u", {"a", "b"}), {0, -1, 2}), {"row 0 is damaged"});
  const auto view = [](std::vector<std::int32_t> entry) {
    Arrow array = views("vu", {std::string(20, 'a')});
    array.buffers[1] = buffer_of(entry);
    return error({table_of({std::move(array)})});
  };
  for (const std::vector<std::int32_t>& entry :
       {std::vector{-1, 0, 0, 0}, {13, 0, 2, 0}, {13, 0, -1, 0}, {13, 0, 0, 8}, {13, 0, 0, -1}}) {
    expect_contains(view(entry), {"row 0 is damaged"});
  }
  // Memory that changes, as that of a file may.
  auto offsets = std::make_shared<std::vector<std::int32_t>>(std::vector{0, 1, 2, 3});
  auto numbers_ = std::make_shared<std::vector<std::int32_t>>(std::vector{0, 1, 0});
  Arrow changing = list;
  changing.buffers[1] = {offsets, offsets->data()};
  Arrow coded{"i", 3, {nullptr, {numbers_, numbers_->data()}}};
  ArrowProducer producer(
      {table_of({changing, named("y", codes(coded, strings("u", {"a", "b"})))})});
  const Columns data(producer.stream);
  SampleBuffer sample(data.fields());
  data.read(1, sample);
  (*offsets)[1] = 3;
  expect_contains(error_of([&] { data.read(1, sample); }),
                  {"column \"x\" of columns: row 1 is damaged"});
  (*offsets)[1] = 1;
  (*numbers_)[1] = 2;
  expect_contains(error_of([&] { data.read(1, sample); }),
                  {"column \"y\" of columns: row 1 is damaged"});
  (*numbers_)[1] = -1;
  expect_contains(error_of([&] { data.read(1, sample); }), {"row 1 is damaged"});
  data.read(0, sample);
}

TEST(ColumnsErrors, MoreCategoriesThanCodesAreAnError) {
  const auto some = [](int begin, int end) {
    std::vector<std::string> texts;
    for (; begin < end; ++begin) texts.push_back(std::to_string(begin));
    return table_of({codes(numbers<std::int8_t>("c", {0}), strings("u", texts))});
  };
  ArrowProducer full({some(0, 100), some(28, 128)});
  EXPECT_EQ(Columns(full.stream).categories(0).size(), 128U);
  expect_contains(error({some(0, 100), some(28, 129)}), {"129 categories", "int8"});
}

TEST(ColumnsErrors, ImagesThatCannotBeDecodedAreNamed) {
  const Arrow image{"+s", 2, {nullptr}, {named("bytes", strings("z", {"", "no JPEG"}))}};
  ArrowProducer producer({table_of({image})});
  const Columns data(producer.stream);
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(1, sample); }), {"column \"x\" of columns: row 1: "});
  EXPECT_EQ(data.blocking(), Blocking::kSeldom);
}

TEST(ColumnsErrors, AllIsReleasedOnceAtTheEnd) {
  ArrowProducer producer({table_of({kInts}), table_of({kInts})});
  {
    const Columns data(producer.stream);
    EXPECT_EQ(producer.alive, 4);  // the stream, the schema, two chunks
    EXPECT_EQ(producer.stream.release, nullptr);
  }
  EXPECT_EQ(producer.alive, 0);
}

// The values of the second chunk lie in a file.
TEST(ColumnsErrors, AMappedFileThatIsCutOffIsAnErrorForItsChunks) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::filesystem::path file = testing::TempDir() + "columns_test_cut_off";
  std::ofstream(file, std::ios::binary) << std::string(4 * page, '\1');
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  void* const mapped = mmap(nullptr, 4 * page, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  {
    const std::shared_ptr<const void> values(static_cast<const std::byte*>(mapped) + 8,
                                             [](const void*) {});
    const auto rows = static_cast<std::int64_t>(4 * page - 16);
    ArrowProducer producer(
        {table_of({numbers<std::uint8_t>("C", {7})}), table_of({{"C", rows, {nullptr, values}}})});
    const Columns data(producer.stream);
    EXPECT_EQ(data.blocking(), Blocking::kSeldom);
    EXPECT_EQ(data.announce(0, 0, 0), 0U);
    EXPECT_EQ(data.announce(1, 0, 0), 1U);
    SampleBuffer sample(data.fields());
    data.read(data.size() - 1, sample);
    std::filesystem::resize_file(file, 2 * page);
    data.read(1, sample);
    EXPECT_EQ(sample.as<std::uint8_t>(0)[0], 1);
    expect_contains(
        error_of([&] { data.read(data.size() - 1, sample); }),
        {"row " + std::to_string(rows) + " of columns", "chunk 1 is mapped from has lost bytes"});
    error_of([&] { data.read(1, sample); });
    data.read(0, sample);
    EXPECT_EQ(sample.as<std::uint8_t>(0)[0], 7);
  }
  munmap(mapped, 4 * page);
  close(fd);
  std::filesystem::remove(file);
}

}  // namespace columns_errors_test
}  // namespace leat::feeder
