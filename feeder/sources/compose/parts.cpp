#include "leat/feeder/sources/compose/parts.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

namespace leat::feeder {
namespace {

// The fields but for the longest lengths: what parts have in common.
bool are_alike(const Field& a, const Field& b) {
  const std::size_t from = a.variable_length ? 1 : 0;
  return a.name == b.name && a.dtype == b.dtype && a.variable_length == b.variable_length &&
         a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + static_cast<std::ptrdiff_t>(std::min(from, a.shape.size())),
                    a.shape.end(),
                    b.shape.begin() + static_cast<std::ptrdiff_t>(std::min(from, b.shape.size())));
}

// "x int32 (1024), label uint8 ()".
std::string fields_text(std::span<const Field> fields) {
  std::string all;
  for (const Field& field : fields) {
    all += (all.empty() ? "" : ", ") + field.name + " " + to_string(field.dtype) + " (";
    for (std::size_t i = 0; i < field.shape.size(); ++i) {
      if (i > 0) all += ", ";
      if (i == 0 && field.variable_length) all += "up to ";
      all += std::to_string(field.shape[i]);
    }
    all += ")";
  }
  return all.empty() ? "none" : all;
}

}  // namespace

void refuse_composition(std::string_view kind, const std::string& why) {
  throw std::invalid_argument("leat: " + std::string(kind) + ": " + why);
}

std::string quoted_name(const Dataset& data) { return "\"" + std::string(data.name()) + "\""; }

void PartSample::read(const Dataset& part, std::uint64_t index, Sample& out, std::uint64_t epoch) {
  const std::span<const Field> fields = part.fields();
  std::span<const std::span<std::byte>> rooms = out.rooms_.first(fields.size());
  const auto is_longer = [&](std::size_t f) { return rooms[f].size() > fields[f].bytes(); };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (!is_longer(f)) continue;
    auto* const own = reinterpret_cast<std::span<std::byte>*>(
        out.scratch(fields.size() * sizeof(std::span<std::byte>)).data());
    std::uninitialized_copy(rooms.begin(), rooms.end(), own);
    for (std::size_t g = f; g < fields.size(); ++g) {
      if (is_longer(g)) own[g] = own[g].first(fields[g].bytes());
    }
    rooms = {own, fields.size()};
    break;
  }
  Sample in(fields, rooms, out.lengths_.first(fields.size()), out.seed_, epoch, out.random_,
            out.scratch_, out.past_cache_);
  part.read(index, in);
  out.random_ = in.random_;  // so that no random number is used twice
}

PartList::PartList(std::vector<const Dataset*> parts, std::string_view kind)
    : kind_(kind), parts_(std::move(parts)), is_shorter_(parts_.size()) {
  if (parts_.empty()) refuse_composition(kind_, "no dataset is given; at least one is needed");
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const Dataset& part = *parts_[k];
    if (part.as_batch_source() != nullptr) {
      refuse_composition(kind_,
                         name(k) +
                             ", makes its batches as a whole; compose datasets whose samples "
                             "are read one by one");
    }
    const std::span<const Field> fields = part.fields();
    if (k == 0) fields_.assign(fields.begin(), fields.end());
    if (!std::ranges::equal(fields, fields_, are_alike)) {
      refuse_composition(kind_, name(k) + ", has the fields " + fields_text(fields) + ", and " +
                                    name(0) + ", " + fields_text(parts_[0]->fields()) +
                                    "; they have to be equal: names, types and shapes");
    }
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!fields[f].variable_length) continue;
      fields_[f].shape[0] = std::max(fields_[f].shape[0], fields[f].shape[0]);
    }
    blocking_ = std::max(blocking_, part.blocking());
  }
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    is_shorter_[k] = !std::ranges::equal(parts_[k]->fields(), fields_);
  }
}

std::uint64_t PartList::samples() const {
  std::uint64_t sum = 0;
  for (const Dataset* const part : parts_) {
    if (part->size() > std::numeric_limits<std::uint64_t>::max() - sum) {
      refuse_composition(kind_, "the parts have 2^64 samples or more together");
    }
    sum += part->size();
  }
  return sum;
}

bool PartList::vary_by_epoch() const noexcept {
  return std::ranges::any_of(parts_, &Dataset::varies_by_epoch);
}

std::string PartList::name(std::size_t part) const {
  const bool has_several = kind_ == "Concat" || kind_ == "Mixture";
  return (has_several ? "part " + std::to_string(part) + ", " : "") + quoted_name(*parts_[part]);
}

void PartList::read(std::size_t part, std::uint64_t index, Sample& out, std::uint64_t epoch) const {
  if (epoch == out.epoch() && !is_shorter_[part]) {
    parts_[part]->read(index, out);
  } else {
    PartSample::read(*parts_[part], index, out, epoch);
  }
}

}  // namespace leat::feeder
