#include "leat/feeder/stages/announcer.h"

namespace leat::feeder {

std::size_t Announcer::announce(std::span<const std::uint64_t> samples, std::size_t from,
                                std::uint64_t epoch) noexcept {
  for (; from < samples.size() && has_room(); ++from) {
    const std::uint64_t bytes = dataset_.announce(samples[from], seed_, epoch);
    sizes_[(first_ + count_++) % kMostSamples] = bytes;
    bytes_ += bytes;
  }
  return from;
}

void Announcer::pop() noexcept {
  if (count_ == 0) return;
  bytes_ -= sizes_[first_];
  first_ = (first_ + 1) % kMostSamples;
  --count_;
}

}  // namespace leat::feeder
