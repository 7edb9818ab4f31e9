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

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

}  // namespace

void refuse_composition(std::string_view of, const std::string& why) {
  throw std::invalid_argument("leat: " + std::string(of) + ": " + why);
}

void check_part(const Dataset& part, std::string_view of, std::string_view which) {
  if (part.as_batch_source() == nullptr) return;
  refuse_composition(of, std::string(which) + ", " + quoted(part.name()) +
                             ", makes its batches as a whole; compose datasets whose samples are "
                             "read one by one");
}

ComposedDigest::ComposedDigest(std::string_view tag) noexcept { add(seed_for(0, tag)); }

ComposedDigest& ComposedDigest::add(std::uint64_t number) noexcept {
  for (unsigned bits = 0; bits < 64; bits += 8) {
    sum_ = (sum_ ^ (number >> bits & 0xFF)) * 0x100000001b3;
  }
  return *this;
}

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

PartList::PartList(std::vector<const Dataset*> parts, std::string_view of)
    : of_(of), parts_(std::move(parts)), is_shorter_(parts_.size()) {
  if (parts_.empty()) refuse_composition(of_, "no dataset is given; at least one is needed");
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    const Dataset& part = *parts_[k];
    check_part(part, of_, "part " + std::to_string(k));
    const std::span<const Field> fields = part.fields();
    if (k == 0) fields_.assign(fields.begin(), fields.end());
    if (!std::ranges::equal(fields, fields_, are_alike)) {
      refuse_composition(of_, name(k) + ", has the fields " + fields_text(fields) + ", and " +
                                  name(0) + ", " + fields_text(parts_[0]->fields()) +
                                  "; they have to be equal: map one of them (feeder/map.h)");
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
      refuse_composition(of_, "the parts have 2^64 samples or more together");
    }
    sum += part->size();
  }
  return sum;
}

std::string PartList::name(std::size_t part) const {
  return "part " + std::to_string(part) + ", " + quoted(parts_[part]->name());
}

std::string PartList::origin(std::size_t part, std::uint64_t index, std::uint64_t seed,
                             std::uint64_t epoch) const {
  return origin_in(*parts_[part], name(part), index, seed, epoch);
}

void PartList::read(std::size_t part, std::uint64_t index, Sample& out, std::uint64_t epoch) const {
  if (epoch == out.epoch() && !is_shorter_[part]) {
    parts_[part]->read(index, out);
  } else {
    PartSample::read(*parts_[part], index, out, epoch);
  }
}

std::string origin_in(const Dataset& from, std::string_view name, std::uint64_t index,
                      std::uint64_t seed, std::uint64_t epoch) {
  const std::string further = from.origin(index, seed, epoch);
  return "number " + std::to_string(index) + " of " + std::string(name) +
         (further.empty() ? "" : ": " + further);
}

}  // namespace leat::feeder
