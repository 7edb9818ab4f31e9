#include "leat/csp/explore/versions.h"

#include "leat/csp/base/random.h"

namespace leat {

std::uint64_t& Versions::at(const void* object) {
  if (2 * used_ >= slots_.size()) grow();
  std::size_t i = mix(reinterpret_cast<std::uintptr_t>(object)) % slots_.size();
  while (slots_[i].epoch == epoch_ && slots_[i].object != object) i = (i + 1) % slots_.size();
  if (slots_[i].epoch != epoch_) {
    slots_[i] = {object, epoch_, 0};
    ++used_;
  }
  return slots_[i].version;
}

void Versions::clear() noexcept {
  ++epoch_;
  used_ = 0;
}

void Versions::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.epoch == epoch_) at(slot.object) = slot.version;
  }
}

}  // namespace leat
