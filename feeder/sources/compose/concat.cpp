#include <algorithm>
#include <utility>

#include "leat/feeder/compose.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/compose/parts.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {
namespace {

std::vector<const Dataset*> pointers(
    const std::vector<std::reference_wrapper<const Dataset>>& parts) {
  std::vector<const Dataset*> all;
  for (const Dataset& part : parts) all.push_back(&part);
  return all;
}

}  // namespace

struct Concat::Parts {
  PartList list;
  ShardIndex index = {};
};

Concat::Concat(const std::vector<std::reference_wrapper<const Dataset>>& parts) {
  PartList list(pointers(parts), "Concat");
  static_cast<void>(list.samples());  // throws for too many
  ShardIndex index;
  const bool is_first_ordered = list[0].is_ordered();
  for (std::size_t k = 0; k < list.size(); ++k) {
    index.add(list[k].size());
    if (list[k].is_ordered() == is_first_ordered) continue;
    const auto what = [&](std::size_t part) {
      return list.name(part) + (list[part].is_ordered() ? ", brings" : ", does not bring") +
             " an order along";
    };
    refuse_composition("Concat", what(k) + ", and " + what(0) + "; make one Mixture of all");
  }
  parts_ = std::make_unique<const Parts>(Parts{std::move(list), std::move(index)});
}

Concat::~Concat() = default;

std::span<const Field> Concat::fields() const noexcept { return parts_->list.fields(); }

Blocking Concat::blocking() const noexcept { return parts_->list.blocking(); }

bool Concat::is_ordered() const noexcept { return parts_->list[0].is_ordered(); }

bool Concat::varies_by_epoch() const noexcept {
  for (std::size_t k = 0; k < parts_->list.size(); ++k) {
    if (parts_->list[k].varies_by_epoch()) return true;
  }
  return false;
}

std::uint64_t Concat::size() const noexcept { return parts_->index.size(); }

std::uint64_t Concat::digest() const noexcept {
  ComposedDigest digest("concat");
  for (std::size_t k = 0; k < parts_->list.size(); ++k) digest.add(parts_->list[k]);
  return digest.value();
}

void Concat::read(std::uint64_t index, Sample& out) const {
  check_index(*this, index);
  const auto [part, number] = parts_->index.find(index);
  parts_->list.read(part, number, out, out.epoch());
}

std::string Concat::origin(std::uint64_t index, std::uint64_t seed, std::uint64_t epoch) const {
  const auto [part, number] = parts_->index.find(index);
  return parts_->list.origin(part, number, seed, epoch);
}

void Concat::will_read(std::uint64_t index, std::uint64_t seed,
                       std::uint64_t epoch) const noexcept {
  const auto [part, number] = parts_->index.find(index);
  parts_->list[part].will_read(number, seed, epoch);
}

std::uint64_t Concat::announce(std::uint64_t index, std::uint64_t seed,
                               std::uint64_t epoch) const noexcept {
  const auto [part, number] = parts_->index.find(index);
  return parts_->list[part].announce(number, seed, epoch);
}

std::optional<std::size_t> Concat::length(std::uint64_t index, std::size_t field) const {
  const auto [part, number] = parts_->index.find(index);
  return parts_->list[part].length(number, field);
}

}  // namespace leat::feeder
