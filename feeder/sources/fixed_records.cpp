#include "leat/feeder/sources/fixed_records.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/record_files.h"

namespace leat::feeder {
namespace {

std::uint64_t bytes_of_record(const std::vector<Field>& fields) {
  if (fields.empty()) {
    throw std::invalid_argument("leat: FixedRecords needs fields: what a record consists of");
  }
  return fixed_bytes(fields, "fixed records");
}

}  // namespace

FixedRecords::FixedRecords(const FilePatterns& files, FixedRecordsOptions options)
    : options_(std::move(options)),
      record_bytes_(bytes_of_record(options_.fields)),
      records_(std::make_unique<const RecordFiles>(find_files(files, options_.extension),
                                                   options_.header_bytes, record_bytes_)) {
  if (options_.name.empty()) options_.name = "fixed records of " + files.text();
}

FixedRecords::~FixedRecords() = default;

std::uint64_t FixedRecords::size() const noexcept { return records_->size(); }

std::uint64_t FixedRecords::digest() const noexcept { return records_->digest(); }

void FixedRecords::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const auto [file, offset, number] = records_->find(index);
  file.check_unchanged(number, record_bytes_);
  file.expect(offset, record_bytes_);
  std::uint64_t next = offset;
  for (std::size_t f = 0; f < options_.fields.size(); next += out.bytes(f++).size()) {
    out.copy(f, file.bytes().subspan(next, out.bytes(f).size()));
  }
  file.check(offset, record_bytes_);
  std::uint64_t begin = offset;
  for (std::size_t f = 0; f < options_.fields.size(); begin += out.bytes(f++).size()) {
    if (options_.fields[f].dtype != DType::kBool) continue;
    const std::span<const std::byte> room = out.bytes(f);
    const std::size_t at = first_no_bool(room);
    if (at == room.size()) continue;
    cannot_read(file.path(),
                "byte " + std::to_string(begin + at) + " is " +
                    std::to_string(std::to_integer<int>(room[at])) + ", in field \"" +
                    options_.fields[f].name + "\" of record " + std::to_string(number) +
                    "; a bool is 0 or 1",
                "declare other fields, or uint8");
  }
}

void FixedRecords::will_read(std::uint64_t index, std::uint64_t /*seed*/,
                             std::uint64_t /*epoch*/) const noexcept {
  const RecordFiles::Place place = records_->find(index);
  place.file.fetch_into_cache(place.offset, record_bytes_);
}

std::uint64_t FixedRecords::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                     std::uint64_t /*epoch*/) const noexcept {
  const RecordFiles::Place place = records_->find(index);
  return place.file.announce(place.offset, record_bytes_);
}

}  // namespace leat::feeder
