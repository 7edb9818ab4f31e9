// A contestant of ./run bench feed --cold, which starts it: samples of files that are not in
// memory, through a prefetcher on the host device, to a loop that looks whether each is the right
// one.
//
//   bench_feeder_cold KIND PATH RECORD BATCH WORKERS SAMPLES SEED
//
// | KIND    | samples                                                                |
// |---------|------------------------------------------------------------------------|
// | records | of RECORD bytes in the file PATH: blocks of 8 KiB with their number    |
// | hot     | the same from memory, with a ring as large as the L3 cache; no BATCH   |
// | bytes   | JPEG files in the tar shards of the folder PATH, undecoded, and labels |
// | images  | the same, decoded and resized to 224 x 224                             |
//
// It opens the data, says "ready" and waits for a line; reads SAMPLES samples, says "done" and
// waits for the end of its input. What it does between the two words is timed from outside, as in
// the other contestants.

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"

namespace {

using namespace leat::feeder;

constexpr std::uint64_t kBlock = 8192;
constexpr std::size_t kRing = 8;  // pinned slots where the data is hot

std::unique_ptr<Dataset> open(std::string_view kind, const char* path, std::int64_t record) {
  if (kind == "records" || kind == "hot") {
    return std::make_unique<FixedRecords>(
        FilePatterns(path), FixedRecordsOptions{.fields = {{"data", DType::kUint8, {record}}}});
  }
  const WebPart image = kind == "images" ? jpeg_image("data", {.height = 224, .width = 224})
                                         : raw_bytes({.name = "data",
                                                      .dtype = DType::kUint8,
                                                      .shape = {std::int64_t{1} << 18},
                                                      .variable_length = true},
                                                     {"jpg"});
  return std::make_unique<WebDataset>(path,
                                      WebDatasetOptions{.parts = {image, class_label("label")}});
}

std::uint64_t word(const std::uint8_t* bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// The numbers of the batch's samples, of which none may come twice in an epoch.
void look_at(Lease& batch, bool is_records, std::uint64_t record, std::vector<bool>& seen) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::uint64_t number = 0;
    if (is_records) {
      const auto* const data = batch["data"].data<std::uint8_t>() + i * record;
      number = word(data) * kBlock / record;
      const std::uint64_t end = (number + 1) * record / kBlock;
      if (word(data + record - sizeof end) != end - 1) number = seen.size();
    } else {
      number = static_cast<std::uint64_t>(batch["label"].data<std::int64_t>()[i]);
    }
    if (number >= seen.size() || seen[number]) throw std::runtime_error("wrong data");
    seen[number] = true;
  }
}

void run(char** words) {
  const std::string_view kind = words[1];
  const std::uint64_t record = std::stoull(words[3]);
  const bool is_hot = kind == "hot";
  const std::unique_ptr<Dataset> data = open(kind, words[2], static_cast<std::int64_t>(record));
  const auto cache = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  Prefetcher feed(*data, leat::gpu::open_host({}),
                  {.batch_size = is_hot ? cache / kRing / record + 1 : std::stoull(words[4]),
                   .prefetch_depth = 4,
                   .workers = std::stoull(words[5]),
                   .pinned_slots = is_hot ? kRing : 0,
                   .seed = std::stoull(words[7]),
                   .pad_to = kind == "bytes" ? PadTo::kBatch : PadTo::kField});
  const auto read = [&](std::uint64_t epoch, std::uint64_t most) {
    std::vector<bool> seen(data->size());
    std::uint64_t samples = 0;
    for (Lease& batch : feed.epoch(epoch)) {
      look_at(batch, is_hot || kind == "records", record, seen);
      if ((samples += batch.size()) >= most) break;
    }
    return samples;
  };
  std::uint64_t left = std::stoull(words[6]);
  std::uint64_t epoch = 0;
  if (is_hot) read(epoch++, data->size());
  std::string line;
  std::cout << "ready" << std::endl;
  std::getline(std::cin, line);
  while (left > 0) left -= std::min(left, read(epoch++, left));
  std::cout << "done" << std::endl;
  while (std::getline(std::cin, line)) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 8) throw std::invalid_argument("7 arguments are expected; see cold_main.cpp");
    run(argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_feeder_cold: %s\n", error.what());
    return 1;
  }
}
