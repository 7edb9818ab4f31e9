// Npy: shards of NumPy's files. Their headers, also damaged ones: token_formats_test.cpp.
#include "leat/feeder/sources/npy_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/sources/npy.h"
#include "tests/feeder/sources/npy_headers.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace npy_files_test {

namespace fs = std::filesystem;

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}
template <class T>
std::vector<T> read(const Npy& data, std::uint64_t index, std::size_t field = 0) {
  SampleBuffer sample(data.fields());
  data.read(index, sample);
  const std::span<const T> values = sample.as<T>(field);
  return {values.begin(), values.end()};
}

class NpyFiles : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& descr, const std::string& shape,
             const Bytes& values, int major = 1) const {
    directory_.write(name, npy_header(npy_text(descr, shape), major) + values);
  }
  // What opening a directory says whose only file has these values.
  std::string error(const std::string& descr, const std::string& shape, const Bytes& values,
                    const std::string& order = "False") const {
    const fs::path file =
        directory_.write("a.npy", npy_header(npy_text(descr, shape, order)) + values);
    std::string text = error_of([&] { const Npy data(directory_.path()); });
    expect_contains(text, {"cannot read " + file.string()});
    return text;
  }
  [[nodiscard]] fs::path file(const std::string& name) const { return directory_.path() / name; }
  TemporaryDirectory directory_;
};

TEST_F(NpyFiles, SamplesAreTheEntriesOfAllFiles) {
  write("a.npy", "'<i4'", "(2, 3)", bytes_of_values<std::int32_t>({1, 2, 3, 4, 5, 6}), 1);
  write("b.npy", "'<i4'", "(0, 3)", {}, 2);
  write("c.npy", "'<i4'", "(1, 3)", bytes_of_values<std::int32_t>({7, 8, 9}), 3);
  const Npy data(directory_.path());
  ASSERT_EQ(data.size(), 3U);
  ASSERT_EQ(data.fields().size(), 1U);
  EXPECT_EQ(data.fields()[0], (Field{"x", DType::kInt32, {3}}));
  EXPECT_EQ(data.blocking(), Blocking::kSeldom);
  EXPECT_EQ(data.announce(1, 0, 0), 12U);
  from_several_threads(3, [&](std::uint64_t i) {
    const auto first = static_cast<std::int32_t>(3 * i + 1);
    EXPECT_EQ(read<std::int32_t>(data, i), (std::vector{first, first + 1, first + 2}));
    data.will_read(i, 0, 0);
  });
  EXPECT_NE(data.digest(), 0U);
  EXPECT_NE(data.digest(), Npy(file("a.npy")).digest());
}

TEST_F(NpyFiles, EachTypeIsAField) {
  const std::vector<std::pair<const char*, DType>> types{
      {"|i1", DType::kInt8},      {"<i2", DType::kInt16},   {"<i4", DType::kInt32},
      {"<i8", DType::kInt64},     {"|u1", DType::kUint8},   {"<u2", DType::kUint16},
      {"<u4", DType::kUint32},    {"<u8", DType::kUint64},  {"<f2", DType::kFloat16},
      {"<f4", DType::kFloat32},   {"<f8", DType::kFloat64}, {"|b1", DType::kUint8},
      {"<M8[ns]", DType::kInt64}, {"<m8[D]", DType::kInt64}};
  for (const auto& [descr, dtype] : types) {
    SCOPED_TRACE(descr);
    write("a.npy", "'" + std::string(descr) + "'", "(1,)", Bytes(size_of(dtype)));
    EXPECT_EQ(Npy(directory_.path()).fields()[0], (Field{"x", dtype, {}}));
  }
}

// Files of two arrays end at different samples.
TEST_F(NpyFiles, ArraysByNameAreFields) {
  write("x0.npy", "'|u1'", "(1,)", {1});
  write("x1.npy", "'|u1'", "(2,)", {2, 3});
  write("y0.npy", "'|u1'", "(3, 1)", {4, 5, 6});
  const Npy data({NpyArrays{"x", file("x*.npy")}, NpyArrays{"why", file("y*.npy")}}, "mine");
  EXPECT_EQ(data.name(), "mine");
  EXPECT_EQ(data.fields()[1], (Field{"why", DType::kUint8, {1}}));
  EXPECT_EQ(read<std::uint8_t>(data, 1, 0), Bytes{2});
  EXPECT_EQ(read<std::uint8_t>(data, 1, 1), Bytes{5});
  EXPECT_EQ(data.announce(1, 0, 0), 2U);
  expect_contains(error_of([&] {
                    const Npy few({NpyArrays{"x", file("x1.npy")}, NpyArrays{"y", file("y0.npy")}});
                  }),
                  {"y0.npy", "3 samples of \"y\", but there are 2 of \"x\""});
  EXPECT_THROW(Npy({NpyArrays{"x", file("x0.npy")}, NpyArrays{"x", file("x0.npy")}}),
               std::invalid_argument);
  EXPECT_THROW(Npy(std::vector<NpyArrays>{}), std::invalid_argument);
}

TEST_F(NpyFiles, MembersOfAStructuredTypeAreFields) {
  const std::string descr =
      "[('shape', '<u2'), ('', '|V1'), ('b, c', '|u1', (2, 2)), ('d', '<M8[s]')]";
  Bytes values;
  for (std::uint8_t i = 0; i < 30; ++i) values.push_back(i);
  write("a.npy", descr, "(2,)", values);
  const Npy data(directory_.path());
  ASSERT_EQ(data.fields().size(), 3U);
  EXPECT_EQ(data.fields()[0], (Field{"shape", DType::kUint16, {}}));
  EXPECT_EQ(data.fields()[1], (Field{"b, c", DType::kUint8, {2, 2}}));
  EXPECT_EQ(data.fields()[2], (Field{"d", DType::kInt64, {}}));
  EXPECT_EQ(read<std::uint16_t>(data, 1, 0), std::vector<std::uint16_t>{15 + 16 * 256});
  EXPECT_EQ(read<std::uint8_t>(data, 1, 1), (Bytes{18, 19, 20, 21}));
  EXPECT_EQ(Npy({NpyArrays{"x", directory_.path()}}).fields()[0].name, "x.shape");
  for (const char* const wrong :
       {"[]", "[(('title', 'a'), '<f4')]", "[('a', [('b', '<f4')])]", "[('a', '<f4', (0,))]",
        "[('a', '<f4', (9999999999, 9999999999))]", "[('a', '>f4')]", "[,]", "[('a', '<f4', (x,))]",
        "[('', '|V4')]"}) {
    error(wrong, "(1,)", Bytes(4));
  }
  expect_contains(error("[('a', '<f4')]", "(1, 1)", Bytes(4)), {"several dimensions"});
}

TEST_F(NpyFiles, FilesThatCannotBeReadAreTold) {
  expect_contains(error("'>f4'", "(1,)", Bytes(4)), {"type >f4", "little-endian", "numpy.save("});
  for (const char* const descr : {"'<c8'", "'<U3'", "'|S3'", "'|O'", "'<V2'"}) {
    expect_contains(error(descr, "(1,)", Bytes(8)), {"values of the type"});
  }
  expect_contains(error("'<f4'", "(1, 1)", Bytes(4), "True"),
                  {"Fortran's order", "ascontiguousarray"});
  for (const char* const order : {"true", "1", "Tru3", "'True'"}) {
    expect_contains(error("'<f4'", "(1, 1)", Bytes(4), order), {"is not {'descr'"});
  }
  for (const char* const shape : {"()", "(-1,)"}) {
    expect_contains(error("'<f4'", shape, Bytes(4)), {"without a number of samples"});
  }
  for (const char* const shape : {"(1, 0)", "(1, -1)", "(1, 4294967296, 4294967296)"}) {
    expect_contains(error("'<f4'", shape, Bytes(4)), {"samples with an extent of"});
  }
  expect_contains(
      error("'<f4'", "(3,)", Bytes(11)),
      {"truncated: its .npy header (byte 0) announces 3 samples of 4 bytes, and 11 bytes "
       "follow it, from byte 128 on"});
  expect_contains(error("'<f4'", "(2,)", Bytes(9)), {"wrong size: "});
  expect_contains(error("'<f4'", "(9223372036854775807, 2)", Bytes(8)), {"truncated: "});
  directory_.write("a.npy", bytes_of("no array"));
  expect_contains(error_of([&] { const Npy data(directory_.path()); }), {"it is no .npy file"});
  directory_.write("a.npy", bytes_of("PK\x03\x04 and more"));
  expect_contains(error_of([&] { const Npy data(directory_.path()); }), {"a zip or .npz archive"});
}

TEST_F(NpyFiles, FilesOfSeveralTypesAreTold) {
  write("a.npy", "'<i4'", "(1, 2)", Bytes(8));
  for (const auto& [descr, shape] : std::vector<std::pair<std::string, std::string>>{
           {"'<f4'", "(1, 2)"}, {"'<i4'", "(2,)"}, {"[('x', '<i4'), ('y', '<i4')]", "(1,)"}}) {
    write("b.npy", descr, shape, Bytes(8));
    expect_contains(error_of([&] { const Npy data(directory_.path()); }),
                    {"b.npy", "a.npy are x int32 (2,)", "one type and shape"});
  }
}

TEST_F(NpyFiles, FilesThatChangeAreAnErrorOfTheRead) {
  write("a.npy", "'|u1'", "(20000,)", Bytes(20'000));
  const Npy data(directory_.path());
  fs::resize_file(file("a.npy"), 8192);
  EXPECT_EQ(read<std::uint8_t>(data, 1), Bytes{0});
  expect_contains(error_of([&] { read<std::uint8_t>(data, 19'999); }), {"a.npy", "cut off"});
}

}  // namespace npy_files_test
}  // namespace leat::feeder
