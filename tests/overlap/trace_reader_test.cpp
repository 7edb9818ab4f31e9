// What the reader of JSON traces makes of what real files get wrong, and what it says of files that
// cannot be read.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "leat/csp/base/sanitizers.h"
#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/model.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/events.h"
#include "tests/support/temporary_directory.h"

namespace overlap::trace {
namespace trace_reader_test {

using namespace std::string_literals;

constexpr std::size_t kBlock = std::size_t{1} << 16;  // that the reader takes at once

std::string packed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A kernel; `more` goes behind its ts and dur.
std::string kernel(const std::string& ts, const std::string& dur, const std::string& more = "") {
  return R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" + ts + ",\"dur\":" + dur +
         more + "}";
}

class TraceReader : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    std::filesystem::path file = folder_.path() / "trace.json";
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    return file;
  }
  Trace read(const std::string& bytes, bool partial = false) {
    return read_events(write(bytes), {}, partial);
  }
  // The only op of the only device.
  Op op(const std::string& event) {
    trace_ = read("[" + event + "]");
    if (trace_.devices.size() != 1 || trace_.devices[0].ops.size() != 1) {
      ADD_FAILURE() << "not one op: " << event;
      return {};
    }
    return trace_.devices[0].ops[0];
  }
  // The name of a kernel that is written so.
  std::string name(const std::string& text) {
    const Op named = op(R"({"ph":"X","cat":"kernel","ts":1,"dur":1,"name":")" + text + "\"}");
    return trace_.names[named.name];
  }
  // Why a file cannot be read, without its name; "": it can.
  std::string fault(const std::string& bytes) {
    const std::filesystem::path file = write(bytes);
    try {
      static_cast<void>(analyze(read_events(file, {}, false), {}));
    } catch (const Unreadable& error) {
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(file.string())) << text;
      EXPECT_LT(text.size(), file.string().size() + 300);
      return text.substr(std::min(text.size(), file.string().size()));
    }
    return "";
  }
  // The byte of it.
  std::uint64_t byte(const std::string& bytes) {
    const std::string text = fault(bytes);
    EXPECT_TRUE(text.starts_with(", byte ")) << text;
    return text.starts_with(", byte ") ? std::stoull(text.substr(7)) : 0;
  }

  leat::support::TemporaryDirectory folder_;
  Trace trace_;
};

TEST_F(TraceReader, TakesNumbersAsText) {
  const Op found =
      op(R"~({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","ts":"10.5",)~"
         R"("dur":"2","args":{"device":"1","stream":"stream 7","bytes":"2e6"}})");
  EXPECT_EQ(found.begin, 10'500);
  EXPECT_EQ(found.end, 12'500);
  EXPECT_EQ(found.bytes, 2'000'000U);
  EXPECT_EQ(found.kind, Kind::kH2d);
  EXPECT_EQ(found.memory, Memory::kPinned);
  EXPECT_EQ(trace_.devices[0].number, 1);
  EXPECT_EQ(trace_.devices[0].streams[0], "7");
}

TEST_F(TraceReader, WithoutArgsPidIsTheDeviceAndTidTheStream) {
  EXPECT_EQ(
      op(R"({"ph":"X","cat":"Kernel","name":"k","pid":3,"tid":"stream 9","ts":0,"dur":1})").begin,
      0);
  EXPECT_EQ(trace_.devices[0].number, 3);
  EXPECT_EQ(trace_.devices[0].streams[0], "9");
  for (const char* const args :
       {"\"x\"", "[1,{\"device\":5}]", "null", "7", "{\"a\":{\"device\":5}}"}) {
    EXPECT_EQ(op(kernel("0", "1", std::string(",\"args\":") + args)).end, 1'000);
    EXPECT_EQ(trace_.devices[0].number, 0) << args;
  }
}

TEST_F(TraceReader, TakesTheLastOfAKeyThatIsThereTwice) {
  EXPECT_EQ(op(kernel("1", "1", R"(,"ts":5,"args":{"device":1},"args":{"device":2})")).begin,
            5'000);
  EXPECT_EQ(trace_.devices[0].number, 2);
}

TEST_F(TraceReader, TakesOtherVersionsAndWhatItDoesNotKnow) {
  const Trace found = read(
      R"({"schemaVersion":99,"new":[[{"traceEvents":[1]}]],"deviceProperties":[{"id":0,"name":"GPU"},)"
      R"({"name":"nameless"},7],"distributedInfo":{"rank":"3"},"traceEvents":[1,null,[{}],"x",{},)" +
      kernel("1", "1") + R"(],"traceName":true})");
  ASSERT_EQ(found.devices.size(), 1U);
  EXPECT_EQ(found.devices[0].name, "GPU");
  EXPECT_EQ(found.rank, 3);
}

TEST_F(TraceReader, FindsCallsByCorrelationsOf64Bits) {
  const std::string call =
      R"(,{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":1,)";
  const Trace found = read(
      "[" + kernel("5", "1", R"(,"args":{"correlation":18446744073709551615})") + "," +
      kernel("6", "1", R"(,"args":{"correlation":18446744073709551614})") + "," +
      kernel("7", "1", R"(,"args":{"correlation":0})") + call +
      R"("args":{"correlation":18446744073709551615}})" + call +
      R"("args":{"correlation":"18446744073709551613"}})" + call + R"("args":{"correlation":0}}])");
  ASSERT_EQ(found.devices[0].ops.size(), 3U);
  EXPECT_EQ(found.devices[0].ops[0].call, 0U);
  EXPECT_EQ(found.devices[0].ops[1].call, kNone);
  EXPECT_EQ(found.devices[0].ops[2].call, kNone);
  EXPECT_EQ(std::ranges::count(found.devices[0].ops, kNone, &Op::call), 2);
}

TEST_F(TraceReader, DropsAndCountsEventsWithoutATime) {
  const Trace found = read(
      "[" + kernel("1", "1") + "," + kernel("-1", "1") + "," + kernel("1", "-1") + "," +
      kernel("nan", "1") + "," + kernel("1", "NaN") + "," + kernel("inf", "1") + "," +
      kernel("1", "-Infinity") + "," + kernel("1e400", "1") + "," + kernel("1", "null") + "," +
      kernel("9223372036854775", "9223372036854775") + "," + kernel("\"\"", "1") +
      R"(,{"ph":"X","cat":"kernel","name":"k","dur":1},{"ph":"X","cat":"kernel","name":"k","ts":1}])");
  EXPECT_EQ(found.devices[0].ops.size(), 1U);
  EXPECT_EQ(found.oddities.dropped, 12U);
}

TEST_F(TraceReader, MendsTexts) {
  EXPECT_EQ(name("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(name("a\xC0\xAF"
                 "b"),
            "a??b");  // overlong
  EXPECT_EQ(name("a\xE0\x80\xAF"
                 "b"),
            "a???b");  // overlong
  EXPECT_EQ(name("a\xED\xA0\x80"
                 "b"),
            "a???b");  // a half of a pair
  EXPECT_EQ(name("a\xF4\x90\x80\x80"
                 "b"),
            "a????b");  // beyond Unicode
  EXPECT_EQ(name("a\xE2\x82"
                 "b"),
            "a?b");  // cut off
  EXPECT_EQ(name("a\xE2\x82"), "a?");
  EXPECT_EQ(name("a\x80\xFF"
                 "b"),
            "a??b");
  EXPECT_EQ(name("a\n\t\x01\x7F"
                 "b"),
            "a????b");
  EXPECT_EQ(name(R"(a\n\t\u0000\u001b\u007Fb)"), "a?????b");
  EXPECT_EQ(name(R"~(\"\\\/\u00e9\ud83d\ude00)~"), "\"\\/\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(name(R"(a\ud800)"), "a?");
  EXPECT_EQ(name(R"(\ud800b)"), "?b");
  EXPECT_EQ(name(R"(\ud800\n)"), "??");
  EXPECT_EQ(name(R"(\udc00\ud800\ud83d\ude00)"), "??\xF0\x9F\x98\x80");
  EXPECT_EQ(name(R"(\ud800A)"), "?A");
  EXPECT_EQ(name("\\ud800\xC3\xA9"), "?\xC3\xA9");
}

// What is mended may lie on both sides of a block's end.
TEST_F(TraceReader, MendsTextsInTwoBlocks) {
  const std::string before = "[" + kernel("1", "1");
  for (const std::string& text : {"\xF0\x9F\x98\x80"s, "\\ud83d\\ude00"s}) {
    for (std::size_t in_first = 1; in_first < text.size(); ++in_first) {
      const std::string begin = R"(,{"ph":"X","cat":"kernel","ts":2,"dur":12345,"name":")";
      const std::string space(kBlock - before.size() - begin.size() - in_first, ' ');
      const Trace found = read(before + space + begin + text + "\"}]");
      ASSERT_EQ(found.devices[0].ops.size(), 2U);
      EXPECT_EQ(found.names[found.devices[0].ops[1].name], "\xF0\x9F\x98\x80") << in_first;
    }
  }
  const std::string begin = ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":2,\"dur\":12";
  const std::string space(kBlock - before.size() - begin.size(), ' ');
  EXPECT_EQ(read(before + space + begin + "345}]").devices[0].ops[1].end, 12'347'000);
}

TEST_F(TraceReader, KeepsTheFirstBytesOfLongNames) {
  EXPECT_EQ(name(std::string(300'000, 'n')), std::string(Names::kMost, 'n'));
}

TEST_F(TraceReader, ReadsSeveralPartsOfGzip) {
  const std::string events = packed("[" + kernel("1", "1") + ",") + packed(kernel("2", "1") + "]");
  EXPECT_EQ(read(events).devices[0].ops.size(), 2U);
  EXPECT_EQ(read(events + "rubbish").devices[0].ops.size(), 2U);
}

// A byte is the number of those read when the fault was plain: the last of a wrong token.
TEST_F(TraceReader, TellsTheByteOfAFault) {
  EXPECT_EQ(byte("[1,}"), 4U);
  EXPECT_EQ(byte("[ 12, 13 14]"), 11U);
  EXPECT_EQ(byte("[nan nan]"), 8U);
  EXPECT_EQ(byte(" tru e"), 5U);
  EXPECT_EQ(byte("{\"a\":\"\xE2\x82\",\"\x01\xC0\":-1e400,\"b\"}"), 26U);
  EXPECT_EQ(byte("[\"\\ud800\\udc00\\ud800\\q\"]"), 22U);
  EXPECT_EQ(byte("[\"\\u12G4\"]"), 7U);
  EXPECT_EQ(byte("[] []"), 4U);
  EXPECT_EQ(byte(""), 0U);
  for (const std::size_t at : {kBlock - 2, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
    std::string text = "[nan,\"\xFF\xE2\x82\"," + std::string(at - 20, ' ');
    text += "12345678901";  // its last bytes may be in the next block
    const std::size_t end = text.size();
    EXPECT_EQ(byte(text + "x y]"), end + 3) << at;  // 12345678901x is taken for a number
    EXPECT_EQ(byte(text + ",]"), end + 2) << at;
    EXPECT_EQ(byte(packed(text + ",]")), end + 2) << at;
    EXPECT_EQ(byte(text), end) << at;
  }
}

TEST_F(TraceReader, ReportsWhatCameBeforeAFault) {
  const std::string two = "{\"traceEvents\":[" + kernel("1", "1") + "," + kernel("2", "1");
  const std::string whole = two + "," + kernel("3", "1") + "]}";
  for (std::size_t size = two.size(); size + 2 < whole.size(); size += 7) {
    const std::string text = whole.substr(0, size);
    EXPECT_EQ(byte(text), size);
    const Trace found = read(text, true);
    EXPECT_EQ(found.devices[0].ops.size(), 2U);
    EXPECT_NE(found.partial.find("byte " + std::to_string(size)), std::string::npos);
  }
  EXPECT_TRUE(read(whole, true).partial.empty());
  // Of packed text, what could be unpacked.
  std::string noise;
  std::mt19937 random(1);
  while (noise.size() < 200'000) noise += static_cast<char>('a' + random() % 26);
  const std::string gzip = packed(two + ",\"" + noise + "\"]}");
  const Trace found = read(gzip.substr(0, gzip.size() / 2), true);
  EXPECT_EQ(found.devices[0].ops.size(), 2U);
  EXPECT_NE(found.partial.find("cut off"), std::string::npos) << found.partial;
  EXPECT_GT(byte(gzip.substr(0, gzip.size() / 2)), 60'000U);
  EXPECT_GT(byte(gzip.substr(0, gzip.size() - 1)), 200'000U);
  std::string damaged = gzip;
  damaged[damaged.size() - 8] ^= 1;  // the checksum
  EXPECT_EQ(read(damaged, true).devices[0].ops.size(), 2U);
  EXPECT_NE(fault(damaged).find(" (unpacked): damaged behind it: incorrect data check"),
            std::string::npos);
  try {
    static_cast<void>(read("[{},", true));
    ADD_FAILURE();
  } catch (const Unreadable& error) {
    EXPECT_NE(std::string(error.what()).find("byte 4: "), std::string::npos) << error.what();
  }
}

TEST_F(TraceReader, RefusesWhatIsDeep) {
  const std::string open(999, '[');
  EXPECT_EQ(fault("[" + kernel("1", "1") + "," + open + std::string(999, ']') + "]"), "");
  EXPECT_EQ(byte("[" + kernel("1", "1") + "," + open + "[" + std::string(1000, ']') + "]"),
            kernel("1", "1").size() + 2 + 1000);
}

long most_memory() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;  // KiB
}

// 16 MiB and more of a string, of a number, of brackets; of spaces, any number.
TEST_F(TraceReader, RefusesLongTokensInLittleMemory) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  EXPECT_EQ(byte(packed("[\"" + std::string(kMost + 9, 'a'))), 2 + kMost + 1);
  EXPECT_EQ(byte(packed("[" + std::string(kMost + 9, '1'))), 1 + kMost);  // the bracket counts
  const long before = most_memory();
  std::string brackets = "[";
  while (brackets.size() < kMost + 9) brackets += "{},";
  EXPECT_EQ(byte(packed(brackets)), kMost + 1);
  EXPECT_EQ(byte(packed(std::string(kMost + 9, ' ') + "x")), kMost + 10);
#if !defined(LEAT_ASAN) && !defined(LEAT_TSAN)  // which keep what is freed
  EXPECT_LT(most_memory() - before, 150'000);
#else
  static_cast<void>(before);
#endif
}

TEST_F(TraceReader, TellsWhatIsNoTrace) {
  EXPECT_NE(fault("").find("unexpected end"), std::string::npos);
  EXPECT_NE(fault("\xFF\xFEx").find("byte 1: "), std::string::npos);
  for (const char* const text :
       {"{}", "7", "\"traceEvents\"", "{\"a\":[1]}", "{\"traceEvents\":7}"})
    EXPECT_NE(fault(text).find("JSON without traceEvents"), std::string::npos) << text;
  for (const std::string& text : {"[]"s, "{\"traceEvents\":[]}"s, "[" + kernel("-1", "1") + "]"})
    EXPECT_NE(fault(text).find("no op of a GPU. Record some"), std::string::npos) << text;
  const auto open = [](const std::filesystem::path& file) -> std::string {
    try {
      static_cast<void>(read_events(file, {}, true));
    } catch (const Unreadable& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(open(folder_.path()).find("directory"), std::string::npos);
  EXPECT_NE(open(folder_.path() / "absent").find("cannot be opened: No such file"),
            std::string::npos);
  if (geteuid() == 0) return;  // may read all
  const std::filesystem::path file = write("[]");
  std::filesystem::permissions(file, std::filesystem::perms::none);
  EXPECT_NE(open(file).find("cannot be opened: Permission denied"), std::string::npos);
}

// Lengths of centuries: sums stay within 64 bits.
TEST_F(TraceReader, FiguresOfHugeTimesAreWithin64Bits) {
  std::string events;
  for (int i = 0; i < 8; ++i)
    events += (i == 0 ? "[" : ",") + kernel("0", "9e15", i % 2 == 0 ? ",\"tid\":8" : "");
  const std::string early = kernel("0", "4e15", R"(,"args":{"device":1})");
  const std::string late = kernel("5e15", "4e15", R"(,"args":{"device":1})");
  const TraceReport found = analyze(read(events + "," + early + "," + late + "]"), {});
  EXPECT_EQ(found.devices[1].whole[Part::kCompute], 8'000'000'000'000'000'000);
  EXPECT_EQ(found.devices[0].whole.length, 9'000'000'000'000'000'000);
  EXPECT_EQ(found.devices[0].names[0].time, std::numeric_limits<Time>::max());
}

}  // namespace trace_reader_test
}  // namespace overlap::trace
