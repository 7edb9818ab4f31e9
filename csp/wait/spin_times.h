// How long who waits for another thread looks for the answer before it sleeps.
#pragma once

#include <chrono>

#include "leat/csp/clock.h"
#include "leat/csp/wait/cpu_count.h"

namespace leat {

/// To be put to sleep and woken costs about as much.
inline constexpr Duration kSpin = std::chrono::microseconds(50);
/// Who was woken after no longer than this looks before the next sleep, unless shares_its_cpu()
/// says otherwise, and who has slept for longer does not. Longer than kSpin, because a wake-up may
/// come that late.
inline constexpr Duration kShortSleep = 4 * kSpin;

/// Whether to look would have been in vain: it would have kept its CPU from the one who then woke
/// the sleeper. Where more threads want to run than there are CPUs, two that wait for each other
/// would look at nothing in turns. `slept_on`: where the sleeper went to sleep; `woken_from`: where
/// its waker was, or kNoCpu.
[[nodiscard]] constexpr bool shares_its_cpu(int slept_on, int woken_from) noexcept {
  return woken_from != kNoCpu && slept_on == woken_from;
}

}  // namespace leat
