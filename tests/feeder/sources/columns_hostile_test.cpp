// Columns of producers whose structs lack what they have to have: errors, and no wild reads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/sources/columns.h"
#include "tests/feeder/sources/arrow_arrays.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace columns_hostile_test {

using SpoilSchema = std::function<void(ArrowSchema&)>;
using Spoil = std::function<void(ArrowArray&)>;

const Arrow kInts = numbers<std::int32_t>("i", {1, 2, 3, 4, 5, 6});
constexpr const char* kMisfit = "does not fit the stream's schema";

// What opening a table of this column says. Nothing is left unreleased.
std::string error(Arrow column, const Spoil& spoil, const ColumnsOptions& options = {}) {
  ArrowProducer producer({table_of({std::move(column)})});
  producer.spoil = spoil;
  std::string text = error_of([&] { const Columns data(producer.stream, options); });
  EXPECT_EQ(producer.alive, 0);
  return text;
}
std::string schema_error(Arrow column, const SpoilSchema& spoil) {
  ArrowProducer producer({table_of({std::move(column)})});
  producer.spoil_schema = spoil;
  std::string text = error_of([&] { const Columns data(producer.stream); });
  EXPECT_LE(producer.alive, 1);  // a schema that says it was released
  return text;
}

TEST(ColumnsHostile, NullPointersOfArraysAreErrors) {
  const Spoil no_buffers = [](ArrowArray& table) { table.children[0]->buffers = nullptr; };
  const Spoil no_children = [](ArrowArray& table) { table.children[0]->children = nullptr; };
  const Spoil no_child = [](ArrowArray& table) { table.children[0]->children[0] = nullptr; };
  const Arrow list = lists("+l", {1, 2, 3}, kInts);
  const Arrow pairs = fixed_lists(2, 3, kInts);
  const Arrow text = strings("u", {"a", "b"});
  const Arrow image{"+s", 2, {nullptr}, {named("bytes", strings("z", {"a", "b"}))}};
  for (const Arrow& column : {kInts, list, pairs, text, image, views("vu", {"a"})}) {
    expect_contains(error(column, no_buffers), {kMisfit});
  }
  for (const Arrow& column : {list, pairs, image}) {
    expect_contains(error(column, no_children), {kMisfit});
    expect_contains(error(column, no_child), {kMisfit});
  }
  expect_contains(error(kInts, [](ArrowArray& table) { table.children[0] = nullptr; }), {kMisfit});
  expect_contains(error(kInts, [](ArrowArray& table) { table.children = nullptr; }), {kMisfit});
  expect_contains(error(kInts, [](ArrowArray& table) { table.buffers = nullptr; }), {kMisfit});
  const auto without = [](std::size_t buffer) {
    return [=](ArrowArray& table) { table.children[0]->buffers[buffer] = nullptr; };
  };
  expect_contains(error(text, without(2)), {kMisfit});
  const Arrow long_views = views("vu", {std::string(20, 'a'), std::string(20, 'b')});
  for (const std::size_t buffer : {1U, 2U, 3U, 4U}) {
    expect_contains(error(long_views, without(buffer)), {kMisfit});
  }
  expect_contains(
      error(codes(kInts, text),
            [](ArrowArray& table) { table.children[0]->dictionary->buffers = nullptr; }),
      {kMisfit});
}

TEST(ColumnsHostile, DamagedSchemasAreErrors) {
  const auto children = [](std::int64_t count) {
    return [=](ArrowSchema& schema) { schema.n_children = count; };
  };
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    expect_contains(schema_error(kInts, children(count)),
                    {"cannot read columns", "number of children"});
  }
  const std::vector<std::pair<const char*, SpoilSchema>> all{
      {"a type without its children", [](ArrowSchema& schema) { schema.children = nullptr; }},
      {"a child that is null", [](ArrowSchema& schema) { schema.children[0] = nullptr; }},
      {"a child that is null",
       [](ArrowSchema& schema) { schema.children[0]->children[0] = nullptr; }},
      {"a type without a format", [](ArrowSchema& schema) { schema.format = nullptr; }},
      {"a type without a format",
       [](ArrowSchema& schema) { schema.children[0]->children[0]->format = nullptr; }},
      {"too many types", [](ArrowSchema& schema) { schema.children[0] = &schema; }},
      {"its schema was released", [](ArrowSchema& schema) {
         schema.release(&schema);
         schema.release = nullptr;
       }}};
  for (const auto& [text, spoil] : all) {
    expect_contains(schema_error(lists("+l", {1}, kInts), spoil), {text});
  }
}

TEST(ColumnsHostile, StreamsWithoutFunctionsAreErrors) {
  const auto of = [](const std::function<void(ArrowProducer&)>& spoil) {
    ArrowProducer producer({table_of({kInts})});
    spoil(producer);
    std::string text = error_of([&] { const Columns data(producer.stream); });
    EXPECT_EQ(producer.alive, 0);
    return text;
  };
  expect_contains(of([](ArrowProducer& it) { it.stream.get_next = nullptr; }), {"is null"});
  expect_contains(of([](ArrowProducer& it) { it.stream.get_schema = nullptr; }), {"is null"});
  expect_contains(of([](ArrowProducer& it) {
                    it.stream.get_last_error = nullptr;
                    it.fails_at_schema = true;
                  }),
                  {"at its schema: Input/output error"});
}

TEST(ColumnsHostile, NothingInFrontOfABufferIsRead) {
  expect_contains(error(kInts, [](ArrowArray& table) { table.offset = -2; }), {"negative"});
  expect_contains(error(kInts, [](ArrowArray& table) { table.length = -2; }), {"negative"});
  const auto wide = [](Arrow array, const std::vector<std::int64_t>& offsets) {
    array.buffers[1] = buffer_of(offsets);
    return array;
  };
  const auto none = [](ArrowArray&) {};
  expect_contains(error(wide(strings("U", {"a", "b"}), {-5, -4, -1}), none), {"damaged"});
  expect_contains(error(wide(lists("+L", {1, 2}, kInts), {-5, -4, -1}), none), {"damaged"});
  expect_contains(error(wide(lists("+L", {4}, kInts), {-4, 0}), none, {.shapes = {{"x", {4}}}}),
                  {kMisfit});
  Arrow narrow = strings("u", {"a", "b"});
  narrow.buffers[1] = buffer_of(std::vector<std::int32_t>{-5, -4, -1});
  expect_contains(error(narrow, none), {"damaged"});
  // Numbers of values that wrap around.
  const std::int64_t many = std::int64_t{1} << 62;
  for (const std::int64_t length : {many, std::numeric_limits<std::int64_t>::max()}) {
    const auto set = [=](ArrowArray& table) { table.length = table.children[0]->length = length; };
    expect_contains(error(fixed_lists(4, 1, kInts), set), {kMisfit});
    expect_contains(error({"b", 1, {nullptr, bits_of({1})}}, set), {kMisfit});
  }
  expect_contains(error(wide(lists("+L", {4}, fixed_lists(4, many, kInts)), {many, many + 2}), none,
                        {.shapes = {{"x", {2, 4}}}}),
                  {kMisfit});
}

// The offsets lie in a file that is cut off before the table is opened: the first pass meets it.
TEST(ColumnsHostile, AFileThatWasCutOffBeforeIsAnError) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::filesystem::path file = testing::TempDir() + "columns_hostile_test_cut_off";
  const std::vector<std::int32_t> offsets(4 * page / sizeof(std::int32_t), 1);
  const auto* const bytes = reinterpret_cast<const char*>(offsets.data());
  std::ofstream(file, std::ios::binary).write(bytes, static_cast<std::streamsize>(4 * page));
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  void* const mapped = mmap(nullptr, 4 * page, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::shared_ptr<const void> memory(mapped, [](const void*) {});
  const auto length = static_cast<std::int64_t>(offsets.size()) - 1;
  const Arrow text{"u", length, {nullptr, memory, text_of("a")}};
  ArrowProducer before({table_of({text})});
  const Columns whole(before.stream);
  std::filesystem::resize_file(file, 2 * page);
  const auto none = [](ArrowArray&) {};
  expect_contains(error(text, none), {"cannot read columns: ", "has lost bytes"});
  // Who has opened it before knows it, too.
  SampleBuffer sample(whole.fields());
  expect_contains(error_of([&] { whole.read(whole.size() - 1, sample); }), {"has lost bytes"});
  // And who opens it later, also what begins among the zeros that stand there by now.
  const std::shared_ptr<const void> lost(memory, static_cast<const char*>(mapped) + 3 * page);
  expect_contains(error(text, none), {"has lost bytes"});
  expect_contains(error({"i", 1, {nullptr, lost}}, none), {"has lost bytes"});
  munmap(mapped, 4 * page);
  close(fd);
  std::filesystem::remove(file);
}

}  // namespace columns_hostile_test
}  // namespace leat::feeder
