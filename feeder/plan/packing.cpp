#include "leat/feeder/plan/packing.h"

#include <algorithm>
#include <stdexcept>

#include "leat/csp/error.h"

namespace leat::feeder {

std::size_t packed_field(const Dataset& dataset) {
  if (dataset.varies_by_epoch()) {
    throw std::invalid_argument(
        "leat: dataset \"" + std::string(dataset.name()) +
        "\" cannot be packed: its epochs have different numbers of elements; pack a Concat, with a "
        "part several times in place of a weight, or mix windows of a fixed length (TokenShards)");
  }
  const std::span<const Field> fields = dataset.fields();
  const auto first = std::ranges::find_if(fields, &Field::variable_length);
  if (first == fields.end()) {
    throw std::invalid_argument("leat: dataset \"" + std::string(dataset.name()) +
                                "\" cannot be packed: it has no field of variable length");
  }
  return static_cast<std::size_t>(first - fields.begin());
}

std::uint64_t packed_length(const Dataset& dataset, std::size_t field, std::uint64_t sample) {
  const auto fail = [&](const std::string& why) {
    throw Error("leat: dataset \"" + std::string(dataset.name()) + "\" cannot be packed: sample " +
                std::to_string(sample) + " " + why);
  };
  const std::optional<std::size_t> length = dataset.length(sample, field);
  if (!length.has_value()) fail("has no length before it is read; implement Dataset::length()");
  const Field& declared = dataset.fields()[field];
  if (*length > static_cast<std::size_t>(declared.shape[0])) {
    fail("has a length of " + std::to_string(*length) + ", but field \"" + declared.name +
         "\" is declared with at most " + std::to_string(declared.shape[0]));
  }
  for (std::size_t other = field + 1; other < dataset.fields().size(); ++other) {
    if (!dataset.fields()[other].variable_length) continue;
    if (dataset.length(sample, other) == length) continue;
    fail("has another length in field \"" + dataset.fields()[other].name + "\" than in \"" +
         declared.name + "\"");
  }
  return *length;
}

std::uint64_t packed_elements(const Dataset& dataset) {
  const std::size_t field = packed_field(dataset);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < dataset.size(); ++i) sum += packed_length(dataset, field, i);
  return sum;
}

bool is_place(const Dataset& dataset, const Sampler& sampler, std::uint64_t epoch,
              const Carry& place) {
  if (place.position > dataset.size()) return false;
  const std::size_t field = packed_field(dataset);
  const auto length = [&](std::uint64_t position) {
    return packed_length(dataset, field, sampler.at(epoch, position));
  };
  std::uint64_t element = 0;
  for (std::uint64_t position = 0; position < place.position; ++position) {
    element += length(position);
  }
  const bool is_within = place.offset == 0 ||
                         (place.position < dataset.size() && place.offset < length(place.position));
  return is_within && place.element >= place.offset && place.element - place.offset == element;
}

PackWalk::PackWalk(const Dataset& dataset, const Sampler& sampler)
    : dataset_(dataset), sampler_(sampler), field_(packed_field(dataset)) {}

std::uint64_t PackWalk::length_here() const {
  return packed_length(dataset_, field_, sampler_.at(epoch_, at_.position));
}

void PackWalk::enter(std::uint64_t epoch, const std::optional<Carry>& known) {
  epoch_ = epoch;
  start_ = known.value_or(Carry{});
  at_ = start_;
}

Carry PackWalk::seek(std::uint64_t element) {
  if (element < at_.element) at_ = element < start_.element ? Carry{} : start_;
  while (at_.element < element) {
    const std::uint64_t left = length_here() - at_.offset;
    const std::uint64_t steps = std::min(left, element - at_.element);
    at_.element += steps;
    at_.offset += steps;
    if (steps == left) {
      ++at_.position;
      at_.offset = 0;
    }
  }
  return at_;
}

void PackWalk::take(const PositionRange& range, std::vector<Piece>& out) {
  seek(range.first);
  for (std::uint64_t left = range.count; left > 0;) {
    const std::uint64_t here = std::min(length_here() - at_.offset, left);
    if (here > 0) {
      out.push_back({.position = at_.position, .first = at_.offset, .count = here});
    }
    left -= here;
    seek(at_.element + here);
    // A sample without elements has no piece and is skipped.
    while (left > 0 && at_.offset == 0 && length_here() == 0) ++at_.position;
  }
}

}  // namespace leat::feeder
