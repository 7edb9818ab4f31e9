// Exports of Nsight Systems, written here: what becomes of their rows, and what is refused.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/nsight.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/texts.h"

namespace overlap::trace {
namespace nsight_test {

using leat::support::expect_throws;

constexpr const char* kStrings =
    "CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES (1, 'gemm<float>'), (2, 'ncclDevKernel_AllReduce'),"
    " (3, 'cudaLaunchKernel_v7000'), (4, 'cuLaunchKernel'), (5, 'step 7'), (6, 'gemm');";
constexpr const char* kKernels =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,"
    " shortName INTEGER);";
constexpr const char* kCopies =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,"
    " copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);";
constexpr const char* kCalls =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, eventClass INTEGER,"
    " globalTid INTEGER, correlationId INTEGER, nameId INTEGER);";
constexpr const char* kRanges =
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
    " globalTid INTEGER, textId INTEGER);";

// A serialized id, as Nsight writes them: a machine's bits above, a thread's below.
std::string global(std::int64_t process, std::int64_t thread = 0) {
  return std::to_string((std::int64_t{5} << 48) | (process << 24) | thread);
}

class Nsight : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / database_name; }

  void write(const std::string& sql) const {
    sqlite3* database = nullptr;
    char* why = nullptr;
    const bool is_written =
        sqlite3_open(file().c_str(), &database) == SQLITE_OK &&
        sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &why) == SQLITE_OK;
    const std::string text = why == nullptr ? "cannot open" : why;
    sqlite3_free(why);
    sqlite3_close(database);
    if (!is_written) throw std::runtime_error(text);
  }
  [[nodiscard]] Trace read(const Rules& rules = {}) const { return read_nsight(file(), rules); }
  // Writes a database, and expects an error with the file's name and the parts.
  void refuses(const std::string& sql, std::initializer_list<std::string_view> parts) const {
    write(sql);
    expect_throws<Unreadable>([&] { static_cast<void>(read()); }, parts);
    expect_throws<Unreadable>([&] { static_cast<void>(read()); }, {file().string()});
  }

  std::string database_name = "trace.sqlite";

 private:
  leat::support::TemporaryDirectory folder_;
};

std::string name_of(const Trace& trace, std::uint32_t name) { return trace.names[name]; }

TEST_F(Nsight, KernelsComputeOrCommunicateByTheirWholeNames) {
  write(std::string(kStrings) + kKernels +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 1, 7, 1, 0, 2, 6),"
        " (10, 25, 1, 8, 2, 0, 1, 6), (5, 6, 0, 7, 3, 0, 6, 6), (50, 51, 1, 7, 4, 0, 99, 6)");
  const Trace trace = read();
  EXPECT_EQ(trace.format, "Nsight Systems");
  EXPECT_EQ(trace.file, file().string());
  ASSERT_EQ(trace.devices.size(), 2U);
  EXPECT_EQ(trace.devices[0].number, 0);
  EXPECT_EQ(trace.devices[1].number, 1);
  const std::vector<Op>& ops = trace.devices[1].ops;
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[0].begin, 10);
  EXPECT_EQ(ops[0].end, 25);
  EXPECT_EQ(ops[0].kind, Kind::kCompute);
  EXPECT_EQ(name_of(trace, ops[0].name), "gemm<float>");
  EXPECT_EQ(trace.devices[1].streams[ops[0].stream], "8");
  EXPECT_EQ(ops[1].kind, Kind::kComm);
  EXPECT_EQ(trace.devices[1].streams[ops[1].stream], "7");
  EXPECT_EQ(name_of(trace, ops[2].name), "?");  // StringIds has no 99
  Rules rules;
  rules.comm = std::regex("^gemm<");
  EXPECT_EQ(read(rules).devices[1].ops[0].kind, Kind::kComm);
}

TEST_F(Nsight, CopiesHaveADirectionAndTheHostsMemory) {
  std::string sql = kCopies;
  for (int kind = 0; kind <= 14; ++kind) {
    // Pinned to pageable: each direction has its own.
    sql += "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (" + std::to_string(kind) +
           ", 20, 0, 7, 0, 0, 4096, " + std::to_string(kind) + ", 1, 0);";
  }
  write(sql +
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (15, 20, 0, 7, 0, 0, 1, 1, 4, 2),"
        " (16, 20, 0, 7, 0, 0, -1, 2, NULL, 1), (17, 20, 0, 7, 0, 0, NULL, NULL, 0, 0)");
  using enum Kind;
  const std::vector<Kind> kinds = {kOther, kH2d,  kD2h, kH2d, kD2h, kD2d,   kD2d, kD2d, kD2d,
                                   kOther, kComm, kH2d, kD2h, kD2d, kOther, kH2d, kD2h, kOther};
  const Trace trace = read();
  ASSERT_EQ(trace.devices.size(), 1U);
  const std::vector<Op>& ops = trace.devices[0].ops;
  ASSERT_EQ(ops.size(), kinds.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(ops[i].kind, kinds[i]) << i;
    if (i > 14) continue;
    EXPECT_EQ(ops[i].bytes, 4096U);
    EXPECT_EQ(ops[i].memory, kinds[i] == kH2d   ? Memory::kPinned
                             : kinds[i] == kD2h ? Memory::kPageable
                                                : Memory::kUnknown)
        << i;
  }
  EXPECT_EQ(ops[15].memory, Memory::kUnknown);  // managed
  EXPECT_EQ(ops[16].memory, Memory::kPinned);
  EXPECT_EQ(ops[16].bytes, 0U);
  EXPECT_EQ(name_of(trace, ops[1].name), "Memcpy HtoD (pinned)");
}

TEST_F(Nsight, MemsetsAndWholeGraphsAreOps) {
  write(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 2, 0, 7);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (3, 9, 0, 7, 1, 0, 12)");
  const Trace trace = read();
  ASSERT_EQ(trace.devices.size(), 1U);
  const std::vector<Op>& ops = trace.devices[0].ops;
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].kind, Kind::kMemset);
  EXPECT_FALSE(ops[0].is_graph);
  EXPECT_EQ(ops[1].kind, Kind::kCompute);
  EXPECT_TRUE(ops[1].is_graph);
  EXPECT_EQ(name_of(trace, ops[1].name), "CUDA graph 12");
}

TEST_F(Nsight, ACallIsThatOfTheOpsProcess) {
  write(std::string(kStrings) + kKernels + kCalls +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 0, 7, 9, " + global(100) +
        ", 1, 6), (50, 60, 0, 7, 9, " + global(200) + ", 1, 6), (70, 80, 0, 7, 9, " + global(300) +
        ", 1, 6), (90, 95, 0, 7, NULL, " + global(100) + ", 1, 6), (96, 97, 0, 7, 9, NULL, 1, 6);" +
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (20, 25, 0, " + global(200, 201) +
        ", 9, 3), (10, 15, 0, " + global(100, 101) + ", 9, 3);" +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER AS SELECT 71 AS start, 72 AS end, " +
        global(300, 7) + " AS globalTid, 9 AS correlationId, 4 AS nameId");
  const Trace trace = read();
  ASSERT_EQ(trace.calls.size(), 3U);
  ASSERT_EQ(trace.devices.size(), 1U);
  const std::vector<Op>& ops = trace.devices[0].ops;
  ASSERT_EQ(ops.size(), 5U);
  EXPECT_EQ(ops[0].call, 0U);
  EXPECT_EQ(ops[1].call, 1U);
  EXPECT_EQ(ops[2].call, 2U);  // the driver's
  EXPECT_EQ(ops[3].call, kNone);
  EXPECT_EQ(ops[4].call, kNone);
  EXPECT_EQ(std::ranges::count(trace.devices[0].ops, kNone, &Op::call), 2);
  EXPECT_EQ(name_of(trace, trace.calls[0].name), "cudaLaunchKernel");
  EXPECT_EQ(name_of(trace, trace.calls[2].name), "cuLaunchKernel");
  const Thread& thread = trace.threads[trace.calls[1].thread];
  EXPECT_EQ(thread.process, 200U);
  EXPECT_EQ(std::to_string(thread.number), global(200, 201));
}

TEST_F(Nsight, OldSchemasWithoutProcessesAndWholeNamesAreRead) {
  write(std::string(kStrings) + kCalls +
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT NOT NULL, end INT NOT NULL,"
        " deviceId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL,"
        " shortName INT NOT NULL);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 0, 7, 9, 6);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (20, 25, 0, " +
        global(200, 201) + ", 9, 3)");
  const Trace trace = read();
  ASSERT_EQ(trace.devices.size(), 1U);
  ASSERT_EQ(trace.devices[0].ops.size(), 1U);
  EXPECT_EQ(trace.devices[0].ops[0].call, 0U);
  EXPECT_EQ(name_of(trace, trace.devices[0].ops[0].name), "gemm");
}

TEST_F(Nsight, RangesHaveAnEndAndATextOrItsNumber) {
  write(std::string(kStrings) + kRanges + "INSERT INTO NVTX_EVENTS VALUES (10, 20, 59, 'a" +
        "\xff\x01\xc3\xa9', " + global(3, 4) + ", NULL), (5, 30, 60, NULL, " + global(3, 5) +
        ", 5), (1, NULL, 34, 'mark', 0, NULL), (2, 3, 75, 'domain', 0, NULL),"
        " (40, NULL, 59, 'never ends', 0, NULL)");
  const Trace trace = read();
  ASSERT_EQ(trace.ranges.size(), 2U);
  EXPECT_EQ(name_of(trace, trace.ranges[0].name), "step 7");
  EXPECT_EQ(trace.ranges[0].begin, 5);
  EXPECT_EQ(trace.ranges[0].end, 30);
  EXPECT_EQ(trace.threads[trace.ranges[0].thread].process, 3U);
  EXPECT_EQ(name_of(trace, trace.ranges[1].name), "a??\xc3\xa9");
  EXPECT_EQ(trace.oddities.dropped, 1U);
}

TEST_F(Nsight, ADeviceHasItsNameAndIsNotAnothersOfTheSameNumber) {
  const std::string gpus =
      "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100'), (1, 'NVIDIA H100');"
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId INTEGER, cudaId INTEGER, pid INTEGER);";
  write(gpus + kKernels + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 0, " +
        global(100) + ", 1, 1), (3, 4, 0, 7, 0, " + global(200) + ", 1, 1);" +
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 100)");
  const Trace one = read();
  ASSERT_EQ(one.devices.size(), 1U);
  EXPECT_EQ(one.devices[0].number, 0);
  EXPECT_EQ(one.devices[0].name, "NVIDIA H100");
  write("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 200)");
  const Trace two = read();
  ASSERT_EQ(two.devices.size(), 2U);
  EXPECT_EQ(two.devices[0].name, "NVIDIA A100");
  EXPECT_EQ(two.devices[0].ops[0].begin, 3);
  EXPECT_EQ(two.devices[1].name, "NVIDIA H100");
}

TEST_F(Nsight, EventsWithoutALengthAreDroppedAndCounted) {
  write(std::string(kKernels) +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (NULL, 2, 0, 7, 0, 0, 1, 1),"
        " (3, NULL, 0, 7, 0, 0, 1, 1), (-1, 2, 0, 7, 0, 0, 1, 1), (5, 4, 0, 7, 0, 0, 1, 1),"
        " (0, 0, 0, 7, 0, 0, 1, 1)");
  const Trace trace = read();
  EXPECT_EQ(trace.oddities.dropped, 4U);
  ASSERT_EQ(trace.devices.size(), 1U);
  EXPECT_EQ(trace.devices[0].ops.size(), 1U);
}

TEST_F(Nsight, AbsentTablesAreEmpty) {
  write("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)");
  const Trace trace = read();
  EXPECT_TRUE(trace.devices.empty());
  EXPECT_TRUE(trace.calls.empty());
  EXPECT_TRUE(trace.ranges.empty());
}

TEST_F(Nsight, MissingColumnsAreNamed) {
  refuses(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER)",
      {"table CUPTI_ACTIVITY_KIND_MEMCPY has no column copyKind"});
}

TEST_F(Nsight, AKernelNeedsAName) {
  refuses(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER)",
      {"table CUPTI_ACTIVITY_KIND_KERNEL has no column demangledName"});
}

TEST_F(Nsight, WrongTypesAreNamedWithTheirRow) {
  refuses(std::string(kKernels) +
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 0, 0, 1, 1),"
              " (1, 'two', 0, 7, 0, 0, 1, 1)",
          {"table CUPTI_ACTIVITY_KIND_KERNEL, column end, row 2: text in place of an integer"});
}

TEST_F(Nsight, ADeviceHasANumber) {
  refuses(std::string(kKernels) +
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, NULL, 7, 0, 0, 1, 1)",
          {"column deviceId, row 1: NULL in place of an integer"});
}

TEST_F(Nsight, NamesAreTexts) {
  refuses(
      "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value); "
      "INSERT INTO StringIds VALUES (1, x'00')",
      {"table StringIds, column value, row 1: bytes in place of text"});
}

TEST_F(Nsight, AViewIsNotRead) {
  refuses("CREATE VIEW nvtx_events AS SELECT 1 AS start, 2 AS end", {"NVTX_EVENTS is a view"});
}

TEST_F(Nsight, AVirtualTableIsNotRead) {
  refuses("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, end)",
          {"NVTX_EVENTS is a virtual table"});
}

TEST_F(Nsight, ComputedColumnsAreNotRead) {
  refuses("CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER AS (start + 1))",
          {"NVTX_EVENTS has computed columns"});
}

TEST_F(Nsight, ATruncatedFileIsAnError) {
  std::string sql = kRanges;
  sql +=
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
      "INSERT INTO NVTX_EVENTS SELECT i, i + 1, 59, 'range ' || i, 0, NULL FROM n;";
  write(sql);
  EXPECT_EQ(read().ranges.size(), 3000U);
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
  expect_throws<Unreadable>([&] { static_cast<void>(read()); },
                            {file().string(), "malformed", "nsys export"});
}

TEST_F(Nsight, APageThatIsReachedTwiceIsAnError) {
  std::string sql = std::string("PRAGMA page_size = 512;") + kRanges;
  sql +=
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
      "INSERT INTO NVTX_EVENTS SELECT i, i + 1, 59, 'range ' || i, 0, NULL FROM n;";
  write(sql);
  std::string bytes;
  {
    std::ifstream in(file(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  // Each page that leads to others leads to its first one everywhere.
  std::size_t changed = 0;
  for (std::size_t page = 512; page < bytes.size(); page += 512) {
    if (bytes[page] != 5) continue;
    const auto at = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes[page + i]));
    };
    const std::size_t cells = at(3) << 8U | at(4);
    const std::size_t first = page + (at(12) << 8U | at(13));
    for (std::size_t cell = 1; cell < cells; ++cell, ++changed) {
      const std::size_t other = page + (at(12 + 2 * cell) << 8U | at(13 + 2 * cell));
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(first), 4,
                  bytes.begin() + static_cast<std::ptrdiff_t>(other));
    }
  }
  ASSERT_GT(changed, 0U);
  std::ofstream(file(), std::ios::binary) << bytes;
  expect_throws<Unreadable>([&] { static_cast<void>(read()); },
                            {file().string(), "damaged", "NVTX_EVENTS repeats rows"});
}

// Weights that are kept on the host: the link is the limit.
TEST_F(Nsight, ARealOne) {
  const gzFile packed = gzopen("tests/overlap/traces/h100_cut.sqlite.gz", "rb");
  ASSERT_NE(packed, nullptr);
  std::vector<char> bytes(std::size_t{1} << 20);
  const int size = gzread(packed, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(packed);
  ASSERT_GT(size, 0);
  std::ofstream(file(), std::ios::binary).write(bytes.data(), size);
  const DeviceReport h100 = analyze(read(), {}).devices.at(0);
  EXPECT_EQ(h100.ops, 2'184U);
  EXPECT_EQ(h100.whole.length, 969'447'605);
  EXPECT_EQ(h100.whole[Part::kCompute], 22'385'163);
  EXPECT_EQ(h100.whole[Part::kH2d], 920'872'841);
  EXPECT_EQ(h100.whole[Part::kExposedH2d], 920'872'841);
  EXPECT_EQ(h100.whole[Part::kD2d], 19'613'651);
  EXPECT_EQ(h100.whole.idle, (std::array<Time, kCauses>{0, 734'593, 28'836, 910'165, 106'306,
                                                        2'280'767, 2'496'691, 0}));
  EXPECT_NEAR(h100.whole.oe(), 0.9499, 5e-5);
  ASSERT_EQ(h100.copies.size(), 3U);
  EXPECT_EQ(h100.copies[1].memory, Memory::kPinned);
  EXPECT_NEAR(*h100.copies[1].rate(), 27.67e9, 5e6);
  EXPECT_NE(h100.verdict.find("The link is the limit: hiding every copy gives at best 921 ms"),
            std::string::npos)
      << h100.verdict;
}

TEST_F(Nsight, WhatIsNoDatabaseIsAnError) {
  std::ofstream(file()) << std::string(1000, 'x');
  expect_throws<Unreadable>([&] { static_cast<void>(read()); },
                            {file().string(), "file is not a database"});
  EXPECT_FALSE(is_sqlite(file()));
}

TEST_F(Nsight, AFileThatIsMissingIsAnError) {
  expect_throws<Unreadable>([&] { static_cast<void>(read()); }, {file().string(), "No such file"});
  EXPECT_FALSE(is_sqlite(file()));
  EXPECT_FALSE(is_sqlite(file().parent_path()));
}

TEST_F(Nsight, APathMayHaveCharactersOfAUri) {
  database_name = "a?mode=rwc#b%41 \xc3\xa9.sqlite";
  write(std::string(kKernels) +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 0, 0, 1, 1)");
  EXPECT_TRUE(is_sqlite(file()));
  EXPECT_EQ(read().devices.size(), 1U);
}

}  // namespace nsight_test
}  // namespace overlap::trace
