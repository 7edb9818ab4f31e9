#include <algorithm>

#include "leat/feeder/compose.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {

Numbered::Numbered(const Dataset& from)
    : Composed({&from}, "Numbered", std::string(from.name()) + ", numbered"),
      from_(from),
      mixture_(dynamic_cast<const Mixture*>(&from)),
      weighted_(dynamic_cast<const Weighted*>(&from)),
      fields_(from.fields().begin(), from.fields().end()) {
  for (const char* const name : {"number", "source"}) {
    if (mixture_ == nullptr && name == std::string_view("source")) continue;
    if (std::ranges::find(fields_, name, &Field::name) != fields_.end()) {
      refuse_composition("Numbered", quoted_name(from) + " has a field \"" + name +
                                         "\" already; give that field another name");
    }
    fields_.push_back({.name = name, .dtype = DType::kInt64, .shape = {}});
  }
}

void Numbered::read(std::uint64_t index, Sample& out) const {
  check_index(*this, index);
  PartSample::read(from_, index, out, out.epoch());
  const std::size_t own = from_.fields().size();
  std::uint64_t number = index;
  if (mixture_ != nullptr) {
    const Mixture::Place place = mixture_->at(index, out.seed(), out.epoch());
    number = place.number;
    out.as<std::int64_t>(own + 1)[0] = static_cast<std::int64_t>(place.part);
  } else if (weighted_ != nullptr) {
    number = weighted_->at(index, out.seed(), out.epoch());
  }
  out.as<std::int64_t>(own)[0] = static_cast<std::int64_t>(number);
}

}  // namespace leat::feeder
