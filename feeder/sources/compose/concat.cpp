#include <algorithm>

#include "leat/feeder/compose.h"
#include "leat/feeder/sources/compose/parts.h"

namespace leat::feeder {
namespace {

std::vector<const Dataset*> pointers(
    const std::vector<std::reference_wrapper<const Dataset>>& parts) {
  std::vector<const Dataset*> all;
  all.reserve(parts.size());
  for (const Dataset& part : parts) all.push_back(&part);
  return all;
}

}  // namespace

Concat::Concat(const std::vector<std::reference_wrapper<const Dataset>>& of)
    : Composed(pointers(of), "Concat", "concat") {
  static_cast<void>(parts().samples());  // throws for too many
  std::uint64_t end = 0;
  for (std::size_t k = 0; k < parts().size(); ++k) {
    ends_.push_back(end += parts()[k].size());
    if (parts()[k].is_ordered() == is_ordered()) continue;
    const auto what = [&](std::size_t part) {
      return parts().name(part) + (parts()[part].is_ordered() ? ", brings" : ", does not bring") +
             " an order along";
    };
    refuse_composition("Concat", what(k) + ", and " + what(0) + "; make one Mixture of all");
  }
}

Composed::Found Concat::find(std::uint64_t index, std::uint64_t /*seed*/,
                             std::uint64_t epoch) const noexcept {
  const auto end = std::ranges::upper_bound(ends_, index);
  return {.part = static_cast<std::size_t>(end - ends_.begin()),
          .number = end == ends_.begin() ? index : index - *(end - 1),
          .epoch = epoch};
}

}  // namespace leat::feeder
