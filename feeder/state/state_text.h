// What writing a state's text (state_text.cpp) and reading one (state_parse.cpp) have in common.
// The text is told in state.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "leat/feeder/state.h"

namespace leat::feeder {

constexpr std::string_view kStateHead = "leat-state/1";
constexpr std::string_view kHexDigits = "0123456789abcdef";

// What a text stands for without telling it: intervals, over all its epochs. A short one that
// stands for more than memory holds is no state; what there is more is told one by one.
constexpr std::uint64_t kMostUntold = std::uint64_t{1} << 24;

/// What another epoch that is like it stands for; an empty one takes room, too.
[[nodiscard]] inline std::uint64_t intervals_of(const EpochReleases& one) noexcept {
  constexpr std::uint64_t kOfItself = 64;
  return kOfItself + one.batches.intervals().size() + one.positions.intervals().size() +
         one.before.intervals().size();
}

/// FNV-1a of 32 bits, in hexadecimal.
[[nodiscard]] std::string state_checksum(std::string_view text);

}  // namespace leat::feeder
