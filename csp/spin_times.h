// How long who waits for another thread looks for the answer before it sleeps.
#pragma once

#include <chrono>

#include "leat/csp/clock.h"

namespace leat {

/// To be put to sleep and woken costs about as much.
inline constexpr Duration kSpin = std::chrono::microseconds(50);
/// Who has slept for no longer than this looks before the next sleep, and who has slept for longer
/// does not. Longer than kSpin, because a wake-up may come that late.
inline constexpr Duration kShortSleep = 4 * kSpin;

}  // namespace leat
