#include "leat/feeder/sources/record_files.h"

#include <string>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/known_formats.h"
#include "leat/feeder/sources/npy.h"

namespace leat::feeder {
namespace {

// Throws if a header of NumPy's is at byte 0, and no record.
void refuse_npy(const MappedFile& file) {
  if (!is_npy(known_format(file))) return;
  cannot_read(file.path(), "its first bytes say that it is a .npy file",
              "write the records alone to a file, as numpy's tofile() does, or read it as "
              "FixedRecords with header_bytes " +
                  std::to_string(read_npy_header(file).begin));
}

}  // namespace

RecordFiles::RecordFiles(const std::vector<std::filesystem::path>& files,
                         std::uint64_t header_bytes, std::uint64_t record_bytes)
    : header_bytes_(header_bytes), record_bytes_(record_bytes) {
  for (const std::filesystem::path& path : files) {
    files_.push_back(std::make_unique<MappedFile>(path));
    const std::uint64_t size = files_.back()->size();
    if (header_bytes == 0) refuse_npy(*files_.back());
    const auto fail = [&](const std::string& problem) {
      cannot_read(path, problem, "fetch the file again, and check that it holds such records");
    };
    const std::string bytes = std::to_string(size) + " bytes";
    if (size <= header_bytes) {
      fail("truncated: its " + bytes + " hold no record behind a header of " +
           std::to_string(header_bytes));
    }
    const std::uint64_t records = (size - header_bytes) / record_bytes;
    if ((size - header_bytes) % record_bytes != 0) {
      fail("truncated: of its " + bytes + ", the last whole record of " +
           std::to_string(record_bytes) + " ends at byte " +
           std::to_string(header_bytes + records * record_bytes));
    }
    index_.add(records);
    digest_.add(path, size);
  }
}

RecordFiles::Place RecordFiles::find(std::uint64_t index) const noexcept {
  const ShardIndex::Place place = index_.find(index);
  return {*files_[place.shard], header_bytes_ + place.index * record_bytes_, place.index};
}

}  // namespace leat::feeder
