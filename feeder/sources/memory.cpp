#include "leat/feeder/sources/memory.h"

#include <unistd.h>

#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/feeder/sources/announce.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/guarded_range.h"

namespace leat::feeder {
namespace {

// Bytes from the first one of the page to `first`.
std::size_t before_in_page(const std::byte* first) noexcept {
  return reinterpret_cast<std::uintptr_t>(first) % static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Guards the pages that `values` lie in.
std::unique_ptr<const GuardedRange> guard(std::span<const std::byte> values) {
  if (values.empty()) return nullptr;
  const std::size_t before = before_in_page(values.data());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = (before + values.size() + page - 1) / page;
  return std::make_unique<const GuardedRange>(values.data() - before, pages * page);
}

}  // namespace

InMemory::InMemory(std::vector<Tensor> tensors, std::string name) : name_(std::move(name)) {
  if (tensors.empty()) {
    throw std::invalid_argument("leat: InMemory needs at least one tensor");
  }
  for (Tensor& tensor : tensors) {
    Field& field = tensor.field;
    const std::string what = "leat: field \"" + field.name + "\" in memory ";
    const std::uint64_t bytes = fixed_bytes(field, "samples in memory");
    const std::size_t all = tensor.values.size();
    const std::uint64_t samples = all / bytes;
    if (all % bytes != 0) {
      throw std::invalid_argument(what + "has " + std::to_string(all) +
                                  " bytes, which are no whole number of samples of " +
                                  std::to_string(bytes));
    }
    if (fields_.empty()) {
      size_ = samples;
    } else if (samples != size_) {
      throw std::invalid_argument(what + "has " + std::to_string(samples) +
                                  " samples, but field \"" + fields_[0].name + "\" has " +
                                  std::to_string(size_));
    }
    fields_.push_back(std::move(field));
    values_.push_back(tensor.values);
    guards_.push_back(tensor.is_mapped ? guard(tensor.values) : nullptr);
    if (tensor.is_mapped) blocking_ = Blocking::kSeldom;
  }
}

InMemory::~InMemory() = default;

void InMemory::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const std::size_t bytes = out.bytes(f).size();
    out.copy(f, values_[f].subspan(index * bytes, bytes));
    if (guards_[f] == nullptr) continue;
    const std::size_t from = before_in_page(values_[f].data()) + index * bytes;
    if (!guards_[f]->is_lost(from, from + bytes)) continue;
    throw Error("leat: cannot read sample " + std::to_string(index) + " of field \"" +
                fields_[f].name + "\" of " + name_ +
                ": the file that the array is mapped from lacks it, because the file was cut off "
                "or because of an I/O error; do not change files that are in use");
  }
}

std::uint64_t InMemory::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                 std::uint64_t /*epoch*/) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const std::size_t bytes = fields_[f].bytes();
    if (guards_[f] != nullptr && announce_mapped(values_[f].subspan(index * bytes, bytes))) {
      sum += bytes;
    }
  }
  return sum;
}

}  // namespace leat::feeder
