// make_seeds <folder>: writes a few small inputs for each fuzz target to <folder>/<target>/.
#include <sqlite3.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_images.h"
#include "bench/data/synthetic_web.h"
#include "leat/feeder/random.h"
#include "leat/feeder/state.h"

namespace {

namespace fs = std::filesystem;
using namespace leat::feeder;
using namespace std::string_literals;

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}
  void add(const std::string& target, std::string_view bytes) {
    fs::create_directories(folder_ / target);
    std::ofstream out(folder_ / target / ("seed" + std::to_string(next_++)), std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write to " + folder_.string());
  }
  /// Adds a file, with `end` behind it.
  void add_file(const std::string& target, const fs::path& file, const std::string& end) {
    std::ifstream in(file, std::ios::binary);
    add(target, std::string(std::istreambuf_iterator<char>(in), {}) + end);
  }
  [[nodiscard]] fs::path scratch() const {
    fs::create_directories(folder_ / "scratch");
    return folder_ / "scratch";
  }

 private:
  fs::path folder_;
  int next_ = 0;
};

std::string noise(std::uint64_t seed, std::size_t bytes) {
  Random random(seed, 0, 0);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random.below(256));
  return text;
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    int byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

void add_archives(Seeds& seeds) {
  const SyntheticWebOptions small{
      .samples = 2, .min_width = 8, .max_width = 9, .min_height = 8, .max_height = 9};
  seeds.add_file("tar", write_synthetic_web(seeds.scratch(), small)[0], "\1");
  for (const TarWriter::LongNames names : {TarWriter::kPax, TarWriter::kGnu}) {
    const fs::path file = seeds.scratch() / "long.tar";
    TarWriter tar(file, names);
    tar.add(std::string(150, 'n') + ".cls", std::string("7"));
    tar.add("b.json", std::string("{}"));
    tar.finish();
    seeds.add_file("tar", file, "\7");
  }
  for (const std::string target : {"a.cls", "none"}) {  // hard links
    const fs::path file = seeds.scratch() / "links.tar";
    TarWriter links(file);
    links.add("a.cls", std::string("7"));
    links.add("b.cls", std::string());
    links.finish();
    std::fstream header(file, std::ios::binary | std::ios::in | std::ios::out);
    header.seekp(1024 + 156) << '1' << target;
    header.close();
    seeds.add_file("tar", file, "\7");
  }
}

void add_images(Seeds& seeds) {
  const auto pixels = synthetic_image(1, 0, 35, 27);
  for (const JpegEncoding& encoding : {JpegEncoding{},
                                       {.chroma_rows = 1},
                                       {.chroma_columns = 4},
                                       {.chroma_rows = 4},
                                       {.progressive = true},
                                       {.restart_rows = 1},
                                       {.color = JpegColor::kGray},
                                       {.color = JpegColor::kCmyk}}) {
    const std::vector<std::byte> image = encode_jpeg(pixels, 35, 27, encoding);
    const auto* const bytes = reinterpret_cast<const char*>(image.data());
    for (const std::uint64_t options : {1U, 2U}) {  // what the target does with it
      seeds.add("jpeg", noise(options, 16) + std::string(bytes, image.size()));
    }
  }
}

// Those of the tests, PNG of every kind and WebP: images.bin, which make_images.py describes.
void add_known_images(Seeds& seeds) {
  std::ifstream in("tests/feeder/sources/data/images.bin", std::ios::binary);
  if (!in) throw std::runtime_error("make_seeds runs in the root of the source tree");
  const auto part = [&] {
    std::array<unsigned char, 4> length{};
    in.read(reinterpret_cast<char*>(length.data()), length.size());
    if (!in) return std::string();
    std::string bytes(
        std::size_t{length[0]} | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  for (std::uint64_t i = 0; !part().empty(); ++i) {  // its name
    seeds.add("png_webp", noise(i, 16) + part());
    in.ignore(8);  // width and height
    static_cast<void>(part());
  }
}

void add_mapped(Seeds& seeds) {
  for (const bool header : {true, false}) {
    const SyntheticTokens tokens{.tokens = 300, .header = header};
    seeds.add_file("mapped", write_tokens(seeds.scratch(), tokens)[0], noise(3, 39) + '\0');
  }
  seeds.add_file("mapped", write_cifar10(seeds.scratch(), {.samples = 2, .shards = 1})[0],
                 noise(4, 39) + '\2');
  seeds.add("mapped", noise(5, 400) + '\1');
  const std::string text = "{'descr': '<i4', 'fortran_order': False, 'shape': (50,), }";
  for (const char version : {'\1', '\2'}) {  // the length of the text has two bytes, or four
    const std::string header = std::string("\x93NUMPY") + version + '\0' + '\x46' +
                               std::string(version == '\1' ? 1 : 3, '\0') + text;
    seeds.add("mapped", header +
                            std::string(10 + 70 - header.size() + (version == '\1' ? 0 : 2), ' ') +
                            std::string(200, '\0') + std::string(39, '\0') + '\0');
  }
}

void add_arrays(Seeds& seeds) {
  for (const char* const descr :
       {"'<f4'", "[('a', '<u2', (2, 3)), ('', '|V2'), ('b', '|u1')]", "'>M8[ns]'"}) {
    const std::string text = std::string("{'descr': ") + descr +
                             ", 'fortran_order': False, 'shape': (3,), }" + std::string(40, ' ');
    seeds.add("npy", std::string("\x93NUMPY\1") + '\0' + static_cast<char>(text.size()) + '\0' +
                         text + std::string(3 * (descr[0] == '[' ? 15 : 4), '\7') + "\1\1\1");
  }
}

void add_states(Seeds& seeds) {
  State state{.samples = 60'000, .dataset = 7, .batch_size = 64, .seed = 1};
  seeds.add("state", state.text());
  state.elements = 100'000;
  state.world_size = 2;
  state.epochs = {{.epoch = 3}, {.epoch = 4}};
  for (EpochReleases& one : state.epochs) {
    one.batches.add({.first = 0, .end = 12});
    one.batches.add(14);
    one.positions.add({.first = 768, .end = 784});
    one.before.add({.first = 768, .end = 770});
    one.carry = Carry{.element = 700, .position = 5, .offset = 1};
  }
  seeds.add("state", state.text());
}

void add_schedules(Seeds& seeds) {
  // 1F1B of two ranks: as an order, lowered, and as a grid.
  seeds.add("pipeline_text", "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n");
  seeds.add("pipeline_text",
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
  seeds.add("pipeline_text",
            "FW00 FS00 FW01 FS01 BR00 BW00 BR01 BW01\n"
            ".    FR00 FW00 BW00 BS00 FR01 FW01 BW01 BS01\n");
  // Four microbatches are told. A pair, actions together, an idle cell, all that has no microbatch.
  seeds.add("pipeline_text",
            "\4"
            "0UNSHARD,0F0,,3F0,(0F1;3B0)OVERLAP_F_B,3B1+0F2,0I0,0W0,0RESHARD,0REDUCE_GRAD\n"
            "1F0+1WAIT_SEND_F0,2WAIT_SEND_B1,1WAIT_REDUCE_GRAD\n");
}

// Exports of Nsight Systems: what the reader looks at, in small pages, of which one table needs
// several; and in UTF-16.
void add_databases(Seeds& seeds) {
  for (const char* const encoding : {"UTF-8", "UTF-16le"}) {
    const fs::path file = seeds.scratch() / "nsight.sqlite";
    fs::remove(file);
    const std::string sql =
        std::string("PRAGMA page_size = 512; PRAGMA encoding = '") + encoding +
        "'; CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
        "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclAll'), (3, 'cudaLaunchKernel_v7000');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId,"
        " globalPid, demangledName, shortName);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (30, 40, 0, 7, 1, 16777216, 1, 1),"
        " (50, 60, 0, 7, 2, 16777216, 2, 1);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, streamId, correlationId,"
        " globalPid, bytes, copyKind, srcKind, dstKind);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 0, 7, 3, 16777216, 99, 1, 1, 2);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, streamId, graphId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (70, 80, 1, 8, 4);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 6, 16777217, 1, 3);"
        "CREATE TABLE NVTX_EVENTS(start, end, eventType, text TEXT, globalTid, textId);"
        "INSERT INTO NVTX_EVENTS VALUES (1, 9, 60, NULL, 16777217, 1),"
        " (1, 9, 59, hex(zeroblob(600)), 16777217, NULL);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)"
        "INSERT INTO NVTX_EVENTS SELECT i, i + 9, 59, 'step ' || i, 16777217, NULL FROM n;"
        "CREATE TABLE TARGET_INFO_GPU(id, name TEXT);"
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');"
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE(gpuId, cudaId, pid);"
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 1);"
        "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSE AS SELECT 1";
    sqlite3* database = nullptr;
    const bool is_written =
        sqlite3_open(file.c_str(), &database) == SQLITE_OK &&
        sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
    sqlite3_close(database);
    if (!is_written) throw std::runtime_error("cannot write " + file.string());
    seeds.add_file("nsight", file, "");
  }
}

// Traces: parts of real ones, a period, a loop of Leat. The byte behind each says what the target
// does.
void add_traces(Seeds& seeds) {
  for (const std::string& name : {"mi250"s, "alexnet"s}) {
    const fs::path file = "tests/overlap/traces/" + name + "_seed.json";
    if (!fs::exists(file))
      throw std::runtime_error("make_seeds runs in the root of the source tree");
    for (const std::string& how : {"\0"s, "\20"s, "\24\0\30"s})  // plain; packed; and cut off
      seeds.add_file("trace_events", file, how);
  }
  // Periods without steps, times as text and at the ends of 64 bits, several devices.
  std::string events;
  for (int i = 0; i < 9; ++i) {
    events += (i == 0 ? "" : ",") + R"({"ph":"X","cat":"kernel","name":"k)"s +
              std::to_string(i % 3) + R"(","pid":)" + std::to_string(i / 8) +
              R"(,"tid":"stream 7","ts":")" + std::to_string(9 * i) +
              R"(e14","dur":7.5e14,"args":{"correlation":)" + std::to_string(i) + "}}";
  }
  seeds.add("trace_events", "[" + events + "]\0"s);
  // A loop of Leat.
  seeds.add(
      "trace_events",
      R"({"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"rank 0: host:0"}},
{"ph":"M","name":"thread_name","pid":0,"tid":3,"args":{"name":"rank 0: consumer waits for a batch"}},
{"ph":"X","cat":"leat","name":"copy 0","pid":1,"tid":1,"ts":1,"dur":2,"args":{"epoch":0,"batch":0}},
{"ph":"X","cat":"leat","name":"use 0","pid":1,"tid":2,"ts":3,"dur":4,"args":{"epoch":0,"batch":0}},
{"ph":"X","cat":"leat","name":"wait 1","pid":0,"tid":3,"ts":7,"dur":1,"args":{"epoch":0,"batch":1}},
{"ph":"X","cat":"leat","name":"use 1","pid":1,"tid":2,"ts":9,"dur":4,"args":{"epoch":0,"batch":1}}]})"
      "\0"s);
  seeds.add(
      "trace_events",
      "[{\"a\":nan,\"b\":-Infinity,\"c\":1e400,\"d\":\"\\ud83d\\udE00\\ud800 \xE2\x82\"}]\0"s);
}

void add_all(Seeds& seeds) {
  add_archives(seeds);
  add_images(seeds);
  add_known_images(seeds);
  // 2 x 3 values, plain and compressed
  seeds.add("idx", from_hex("00000802000000020000000300010203040501"));
  seeds.add("idx",
            from_hex("1f8b08000000000002036360e06062606000616606462666165600262c23541200000001"));
  add_mapped(seeds);
  add_arrays(seeds);
  add_states(seeds);
  add_schedules(seeds);
  add_databases(seeds);
  add_traces(seeds);
  for (std::uint64_t i = 0; i < 4; ++i) {
    seeds.add("resize", noise(i, 100));
    seeds.add("c_api", noise(i, 600));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  try {
    Seeds seeds(argv[1]);
    add_all(seeds);
    fs::remove_all(fs::path(argv[1]) / "scratch");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
