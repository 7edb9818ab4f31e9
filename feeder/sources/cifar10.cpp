#include "leat/feeder/sources/cifar10.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/record_files.h"

namespace leat::feeder {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;

// A label: a field after the image, and the place of its byte in a record, before the image.
struct Label {
  const char* field;
  std::size_t offset;
  unsigned classes;
};
constexpr std::array<Label, 1> kLabels10 = {{{"label", 0, Cifar10::kClasses}}};
constexpr std::array<Label, 2> kLabels100 = {
    {{"label", 1, Cifar100::kClasses}, {"coarse_label", 0, Cifar100::kCoarseClasses}}};

std::span<const Label> labels_of(std::size_t classes) {
  if (classes == Cifar10::kClasses) return kLabels10;
  return kLabels100;
}

std::vector<Field> fields_of(std::size_t classes, const std::string& name, DType label_type) {
  if (label_type != DType::kUint8 && label_type != DType::kInt32 && label_type != DType::kInt64) {
    throw std::invalid_argument("leat: labels of " + name + " are uint8, int32 or int64, not " +
                                to_string(label_type));
  }
  std::vector<Field> fields{{"image", DType::kUint8, {3, 32, 32}}};
  for (const Label& label : labels_of(classes)) fields.push_back({label.field, label_type, {}});
  return fields;
}

void store(std::byte label, std::span<std::byte> out) {
  // In each allowed type, a label is its byte followed by zeros (little-endian).
  std::memset(out.data(), 0, out.size());
  out[0] = label;
}

std::vector<fs::path> cifar10_files(const fs::path& directory, Cifar::Split split) {
  if (split == Cifar::kTest) return {directory / "test_batch.bin"};
  std::vector<fs::path> files;
  for (int batch = 1; batch <= 5; ++batch) {
    files.push_back(directory / ("data_batch_" + std::to_string(batch) + ".bin"));
  }
  return files;
}

std::string with_split(const char* name, Cifar::Split split) {
  return std::string(name) + (split == Cifar::kTrain ? " train" : " test");
}

constexpr std::string_view kExtension = ".bin";

}  // namespace

Cifar::Cifar(std::size_t classes, std::string name, const std::vector<fs::path>& files,
             CifarOptions options)
    : classes_(classes),
      name_(std::move(name)),
      fields_(fields_of(classes, name_, options.label)),
      records_(std::make_unique<const RecordFiles>(files, 0, labels_of(classes).size() + kPixels)) {
}

Cifar::~Cifar() = default;

std::uint64_t Cifar::size() const noexcept { return records_->size(); }

std::uint64_t Cifar::digest() const noexcept { return records_->digest(); }

void Cifar::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const std::span<const Label> labels = labels_of(classes_);
  const auto [file, offset, number] = records_->find(index);
  const std::span<const std::byte> record = file.bytes().subspan(offset, labels.size() + kPixels);
  file.check_unchanged(number, record.size());
  out.copy(0, record.subspan(labels.size()));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    store(record[labels[i].offset], out.bytes(1 + i));
  }
  file.check(offset, record.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = std::to_integer<unsigned>(out.bytes(1 + i)[0]);
    if (label < labels[i].classes) continue;
    throw Error("leat: " + std::string(labels[i].field) + " " + std::to_string(label) +
                " of sample " + std::to_string(index) + " in " + file.path().string() + " (byte " +
                std::to_string(offset + labels[i].offset) + ") is above " +
                std::to_string(labels[i].classes - 1) + "; check that it is a CIFAR-" +
                std::to_string(classes_) + " file in the binary version");
  }
}

void Cifar::will_read(std::uint64_t index, std::uint64_t /*seed*/,
                      std::uint64_t /*epoch*/) const noexcept {
  const RecordFiles::Place place = records_->find(index);
  place.file.fetch_into_cache(place.offset, labels_of(classes_).size() + kPixels);
}

std::uint64_t Cifar::announce(std::uint64_t index, std::uint64_t /*seed*/,
                              std::uint64_t /*epoch*/) const noexcept {
  const RecordFiles::Place place = records_->find(index);
  return place.file.announce(place.offset, labels_of(classes_).size() + kPixels);
}

Cifar10::Cifar10(const fs::path& directory, Split split, CifarOptions options)
    : Cifar(kClasses, with_split("cifar-10", split), cifar10_files(directory, split), options) {}
Cifar10::Cifar10(const FilePatterns& files, CifarOptions options)
    : Cifar(kClasses, "cifar-10 of " + files.text(), find_files(files, kExtension), options) {}

Cifar100::Cifar100(const fs::path& directory, Split split, CifarOptions options)
    : Cifar(kClasses, with_split("cifar-100", split),
            {directory / (split == kTrain ? "train.bin" : "test.bin")}, options) {}
Cifar100::Cifar100(const FilePatterns& files, CifarOptions options)
    : Cifar(kClasses, "cifar-100 of " + files.text(), find_files(files, kExtension), options) {}

}  // namespace leat::feeder
