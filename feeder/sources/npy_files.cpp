#include "leat/feeder/sources/npy_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/known_formats.h"
#include "leat/feeder/sources/mapped_file.h"
#include "leat/feeder/sources/npy.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {
namespace {

constexpr std::uint64_t kMostSampleBytes = std::uint64_t{1} << 40;  // of a sample

// A member of a structured type; an array of another type has one.
struct NpyMember {
  Field field;
  std::uint64_t begin;  // in a sample
};

struct NpyType {
  std::vector<NpyMember> members;
  std::uint64_t bytes = 0;  // of a sample
};

constexpr std::array<std::pair<std::string_view, DType>, 12> kNpyTypes{{{"|i1", DType::kInt8},
                                                                        {"<i2", DType::kInt16},
                                                                        {"<i4", DType::kInt32},
                                                                        {"<i8", DType::kInt64},
                                                                        {"|u1", DType::kUint8},
                                                                        {"<u2", DType::kUint16},
                                                                        {"<u4", DType::kUint32},
                                                                        {"<u8", DType::kUint64},
                                                                        {"<f2", DType::kFloat16},
                                                                        {"<f4", DType::kFloat32},
                                                                        {"<f8", DType::kFloat64},
                                                                        {"|b1", DType::kUint8}}};

std::optional<DType> npy_dtype(std::string_view descr) {
  if (descr.starts_with("<M8") || descr.starts_with("<m8")) return DType::kInt64;
  const auto* const found =
      std::ranges::find(kNpyTypes, descr, &std::pair<std::string_view, DType>::first);
  return found == kNpyTypes.end() ? std::nullopt : std::optional(found->second);
}

// The bytes of padding: "|V4".
std::uint64_t npy_padding(std::string_view descr) {
  std::uint64_t bytes = 0;
  if (descr.starts_with("|V")) {
    std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes);
  }
  return std::min(bytes, kMostSampleBytes);
}

// The type of the samples of a file: the members of `descr`, each with the shape behind the first
// axis.
class NpyTypeReader {
 public:
  NpyTypeReader(const MappedFile& file, const NpyHeader& header, std::string_view prefix)
      : file_(file), shape_(header.shape.begin() + 1, header.shape.end()), prefix_(prefix) {
    std::string_view descr = header.descr;
    if (!descr.starts_with('[')) {
      add(prefix_.empty() ? std::string("x") : prefix_, descr, shape_);
      return;
    }
    if (!shape_.empty()) {
      refuse("an array of several dimensions, of a structured type",
             "save it again with one dimension, the samples, or as an array for each member");
    }
    for (descr.remove_prefix(1); !descr.empty();) {
      std::string_view member = take_literal(descr);
      if (member.empty() && descr.empty()) break;
      add_member(member);
    }
  }
  [[nodiscard]] NpyType take() { return std::move(type_); }

 private:
  // ('name', '<f4'), or with a shape behind it.
  void add_member(std::string_view member) {
    const std::string_view whole = member;
    if (member.starts_with('(')) member.remove_prefix(1);
    const std::string_view quoted = take_literal(member);
    const std::string_view name = unquoted(quoted);
    const std::string_view descr = unquoted(take_literal(member));
    std::string_view extents = take_literal(member);
    if (name.empty() && descr.starts_with("|V")) {
      type_.bytes += npy_padding(descr);
      return;
    }
    if (name.size() + 2 != quoted.size()) {
      refuse("a member of a structured type, " + start_of(whole) + ", that is no name and type",
             "save it again with plain names");
    }
    std::vector<std::int64_t> shape;
    if (extents.starts_with('(')) extents.remove_prefix(1);
    while (!extents.empty()) {
      const std::string_view one = take_literal(extents);
      if (one.empty()) continue;
      const auto [end, error] =
          std::from_chars(one.data(), one.data() + one.size(), shape.emplace_back());
      if (error != std::errc{}) shape.back() = 0;  // refused
    }
    add((prefix_.empty() ? "" : prefix_ + ".") + printable(name), descr, shape);
  }

  void add(std::string name, std::string_view descr, const std::vector<std::int64_t>& shape) {
    const std::optional<DType> dtype = npy_dtype(descr);
    if (!dtype) {
      refuse(
          "values of the type " + start_of(descr) + (prefix_ == name ? "" : " as " + name) +
              "; integers, floats and bools are read, little-endian",
          "save it again: numpy.save(file, array.astype(...)), with \"<f4\" or another such type");
    }
    std::uint64_t bytes = size_of(*dtype);
    for (const std::int64_t extent : shape) {
      if (extent < 1 || bytes > kMostSampleBytes / static_cast<std::uint64_t>(extent)) {
        refuse("samples with an extent of " + std::to_string(extent) + ", as " + name,
               "leave it out, or save it again");
      }
      bytes *= static_cast<std::uint64_t>(extent);
    }
    type_.members.push_back({{std::move(name), *dtype, shape}, type_.bytes});
    type_.bytes += bytes;
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& advice) const {
    cannot_read(file_.path(), "its .npy header (byte 0) says that it holds " + what, advice);
  }

  const MappedFile& file_;
  std::vector<std::int64_t> shape_;
  std::string prefix_;
  NpyType type_;
};

NpyHeader npy_header_of(const MappedFile& file) {
  const KnownFormat* const known = known_format(file);
  if (!is_npy(known)) {
    cannot_read(file.path(),
                known == nullptr ? "it is no .npy file: it does not begin with \\x93NUMPY"
                                 : "it is no .npy file: its first bytes say that it is " +
                                       std::string(known->name),
                "save arrays by numpy.save");
  }
  NpyHeader header = read_npy_header(file);
  if (header.shape.empty() || header.shape[0] < 0) {
    cannot_read(file.path(), "its .npy header (byte 0) has a shape without a number of samples",
                "save an array that has an entry for each sample");
  }
  if (header.is_fortran) {
    cannot_read(file.path(), "its .npy header (byte 0) says that it is in Fortran's order",
                "save it again: numpy.save(file, numpy.ascontiguousarray(array))");
  }
  return header;
}

void check_npy_size(const MappedFile& file, const NpyHeader& header, std::uint64_t sample_bytes) {
  const std::uint64_t bytes = file.size() - header.begin;
  const auto samples = static_cast<std::uint64_t>(header.shape[0]);
  if (bytes / sample_bytes == samples && bytes % sample_bytes == 0) return;
  cannot_read(file.path(),
              (bytes / sample_bytes < samples ? "truncated: " : "wrong size: ") +
                  ("its .npy header (byte 0) announces " + std::to_string(samples)) +
                  " samples of " + std::to_string(sample_bytes) + " bytes, and " +
                  std::to_string(bytes) + " bytes follow it, from byte " +
                  std::to_string(header.begin) + " on",
              kFetchAgain);
}

bool operator==(const NpyMember& a, const NpyMember& b) {
  return a.field == b.field && a.begin == b.begin;
}

std::string npy_text_of(const NpyType& type) {
  std::string text;
  for (const NpyMember& member : type.members) {
    text.append(text.empty() ? "" : ", ").append(member.field.name).append(" ");
    text.append(to_string(member.field.dtype)).append(" (");
    for (const std::int64_t extent : member.field.shape) text += std::to_string(extent) + ",";
    text += ")";
  }
  return text;
}

}  // namespace

struct Npy::Array {
  std::vector<std::unique_ptr<const MappedFile>> files;
  std::vector<std::uint64_t> begins;  // of the samples in each file
  ShardIndex index;
  std::vector<std::uint64_t> members;  // where each field begins in a sample
  std::uint64_t bytes = 0;             // of a sample

  struct Place {
    const MappedFile& file;
    std::uint64_t offset;
    std::uint64_t number;
  };
  [[nodiscard]] Place find(std::uint64_t sample) const noexcept {
    const auto [shard, number] = index.find(sample);
    return {*files[shard], begins[shard] + number * bytes, number};
  }
};

Npy::Npy(std::vector<NpyArrays> arrays, std::string name) : name_(std::move(name)) {
  if (arrays.empty()) throw std::invalid_argument("leat: Npy of no arrays");
  if (name_.empty()) name_ = "arrays of " + arrays[0].files.text();
  FilesDigest digest;
  for (const NpyArrays& one : arrays) add(one.name, one.files, digest);
  digest_ = digest.value();
}

Npy::Npy(const FilePatterns& files, std::string name)
    : Npy({NpyArrays{{}, files}}, std::move(name)) {}

Npy::~Npy() = default;

void Npy::add(const std::string& prefix, const FilePatterns& files, FilesDigest& digest) {
  auto array = std::make_unique<Array>();
  NpyType first;
  for (const std::filesystem::path& path : find_files(files, ".npy")) {
    const MappedFile& file = *array->files.emplace_back(std::make_unique<const MappedFile>(path));
    const NpyHeader header = npy_header_of(file);
    NpyType type = NpyTypeReader(file, header, prefix).take();
    if (type.members.empty()) {
      cannot_read(path, "its type, " + start_of(header.descr) + ", has no members", "leave it out");
    }
    check_npy_size(file, header, type.bytes);
    if (array->files.size() == 1) {
      first = std::move(type);
    } else if (type.members != first.members || type.bytes != first.bytes) {
      cannot_read(path,
                  "its samples are " + npy_text_of(type) + ", but those of " +
                      array->files[0]->path().string() + " are " + npy_text_of(first),
                  "take files of one type and shape");
    }
    array->begins.push_back(header.begin);
    array->index.add(static_cast<std::uint64_t>(header.shape[0]));
    digest.add(path, file.size());
  }
  if (arrays_.empty()) size_ = array->index.size();
  if (array->index.size() != size_) {
    cannot_read(array->files[0]->path(),
                "it and the files behind it hold " + std::to_string(array->index.size()) +
                    " samples of \"" + prefix + "\", but there are " + std::to_string(size_) +
                    " of \"" + fields_[0].name + "\"",
                "take all files of each array");
  }
  array->bytes = first.bytes;
  for (NpyMember& member : first.members) {
    if (std::ranges::find(fields_, member.field.name, &Field::name) != fields_.end()) {
      throw std::invalid_argument("leat: Npy with two fields of the name \"" + member.field.name +
                                  "\"");
    }
    array->members.push_back(member.begin);
    fields_.push_back(std::move(member.field));
  }
  arrays_.push_back(std::move(array));
}

void Npy::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  std::size_t f = 0;
  for (const auto& array : arrays_) {
    const auto [file, offset, number] = array->find(index);
    file.check_unchanged(number, array->bytes);
    file.expect(offset, array->bytes);
    for (const std::uint64_t begin : array->members) {
      out.copy(f, file.bytes().subspan(offset + begin, out.bytes(f).size()));
      ++f;
    }
    file.check(offset, array->bytes);
  }
}

void Npy::will_read(std::uint64_t index, std::uint64_t /*seed*/,
                    std::uint64_t /*epoch*/) const noexcept {
  for (const auto& array : arrays_) {
    const Array::Place place = array->find(index);
    place.file.fetch_into_cache(place.offset, array->bytes);
  }
}

std::uint64_t Npy::announce(std::uint64_t index, std::uint64_t /*seed*/,
                            std::uint64_t /*epoch*/) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& array : arrays_) {
    const Array::Place place = array->find(index);
    sum += place.file.announce(place.offset, array->bytes);
  }
  return sum;
}

}  // namespace leat::feeder
