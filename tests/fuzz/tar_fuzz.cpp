// Archives: members are in the file, can be found again, and a WebDataset reads them or says why
// not. The last byte of an input says whether checksums are made right, so that changes get past
// them.
#include <cstring>
#include <string>
#include <vector>

#include "leat/feeder/sample.h"
#include "leat/feeder/sources/tar.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;

constexpr std::size_t kBlock = 512;

void make_checksums_right(std::vector<std::uint8_t>& archive) {
  for (std::size_t at = 0; at + kBlock <= archive.size(); at += kBlock) {
    std::uint8_t* const header = archive.data() + at;
    if (std::memcmp(header + 257, "ustar", 5) != 0) continue;
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += header[i];
    std::snprintf(reinterpret_cast<char*>(header) + 148, 8, "%06o", sum);
  }
}

void read_archive(const MemoryFile& file, std::size_t size, bool accept_zeros) {
  std::vector<TarMember> members;
  succeeds(
      [&] {
        TarReader tar(file.path(), accept_zeros);
        for (TarMember member; tar.next(member);) {
          require(member.begin < member.data && member.data + member.size <= size,
                  "a member beyond the archive");
          members.push_back(member);
        }
      },
      file.path().string());
  for (const TarMember& member : members) {
    TarReader tar(file.path());
    tar.seek(member.begin);
    TarMember again;
    require(tar.next(again) && again.name == member.name && again.data == member.data &&
                again.size == member.size && again.digest == member.digest,
            "seek() finds another member");
  }
}

void read_dataset(const MemoryFile& file, bool skip_incomplete, bool accept_short_shards) {
  succeeds(
      [&] {
        const WebDataset data(
            file.path(),
            {.parts = {class_label("label"), jpeg_image("image", {.height = 8, .width = 8}),
                       raw_bytes({"json", DType::kUint8, {100}, true}, {"json"})},
             .skip_incomplete = skip_incomplete,
             .accept_short_shards = accept_short_shards,
             .index_threads = 1});
        for (std::uint64_t i = 0; i < data.size(); ++i) {
          SampleBuffer sample(data.fields());
          succeeds([&] { data.read(i, sample); }, file.path().string());
          static_cast<void>(data.key(i));
        }
      },
      file.path().string());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Numbers numbers({data, size});
  const std::uint64_t flags = numbers.take(1);
  std::vector<std::uint8_t> archive(numbers.rest().begin(), numbers.rest().end());
  if ((flags & 1) != 0) make_checksums_right(archive);
  const MemoryFile file(archive);
  read_archive(file, archive.size(), (flags & 2) != 0);
  read_dataset(file, (flags & 4) != 0, (flags & 2) != 0);
  return 0;
}
