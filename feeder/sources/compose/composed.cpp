// Composed: what reads, hints and messages have in common.
#include <utility>

#include "leat/feeder/compose.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {
namespace {

// FNV-1a, 64 bits. Never 0, which stands for a digest that is not known.
std::uint64_t digest_with(std::uint64_t digest, std::uint64_t number) noexcept {
  for (unsigned bits = 0; bits < 64; bits += 8) {
    digest = (digest ^ (number >> bits & 0xFF)) * 0x100000001b3;
  }
  return digest == 0 ? 1 : digest;
}

}  // namespace

Composed::Composed(std::vector<const Dataset*> parts, const char* kind, std::string name)
    : parts_(std::make_unique<const PartList>(std::move(parts), kind)),
      name_(std::move(name)),
      digest_(digest_with(0xcbf29ce484222325, seed_for(0, kind))) {
  for (std::size_t k = 0; k < parts_->size(); ++k) {
    compose_digest({(*parts_)[k].size(), (*parts_)[k].digest()});
  }
}

Composed::~Composed() = default;

void Composed::compose_digest(std::initializer_list<std::uint64_t> numbers,
                              std::span<const std::uint64_t> more) noexcept {
  for (const std::uint64_t number : numbers) digest_ = digest_with(digest_, number);
  digest_ = digest_with(digest_, more.size());
  for (const std::uint64_t number : more) digest_ = digest_with(digest_, number);
}

std::span<const Field> Composed::fields() const noexcept { return parts_->fields(); }

Blocking Composed::blocking() const noexcept { return parts_->blocking(); }

bool Composed::is_ordered() const noexcept { return (*parts_)[0].is_ordered(); }

bool Composed::varies_by_epoch() const noexcept { return parts_->vary_by_epoch(); }

void Composed::read(std::uint64_t index, Sample& out) const {
  check_index(*this, index);
  const Found found = find(index, out.seed(), out.epoch());
  parts_->read(found.part, found.number, out, found.epoch);
}

std::string Composed::origin(std::uint64_t index, std::uint64_t seed, std::uint64_t epoch) const {
  const Found found = find(index, seed, epoch);
  const std::string further = (*parts_)[found.part].origin(found.number, seed, found.epoch);
  return "number " + std::to_string(found.number) + " of " + parts_->name(found.part) +
         (further.empty() ? "" : ": " + further);
}

void Composed::will_read(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept {
  const Found found = find(index, seed, epoch);
  (*parts_)[found.part].will_read(found.number, seed, found.epoch);
}

std::uint64_t Composed::announce(std::uint64_t index, std::uint64_t seed,
                                 std::uint64_t epoch) const noexcept {
  const Found found = find(index, seed, epoch);
  return (*parts_)[found.part].announce(found.number, seed, found.epoch);
}

std::optional<std::size_t> Composed::length(std::uint64_t index, std::size_t field) const {
  if (varies_by_epoch() || field >= parts_->fields().size()) return std::nullopt;
  const Found found = find(index, 0, 0);
  return (*parts_)[found.part].length(found.number, field);
}

}  // namespace leat::feeder
