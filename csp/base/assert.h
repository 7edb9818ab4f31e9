// LEAT_ASSERT: a broken contract inside Leat stops the program with both sides named.
//
// For conditions that fail only if Leat has a bug or memory is corrupt (an impossible state
// transition, a violated lock order). Bad input and a failing environment throw; see csp/error.h.
//
// LEAT_CHECK: likewise where a check would take too long. Only exploring builds have it, and there
// it is no step of a schedule.
#pragma once

#include "leat/csp/base/hooks.h"

namespace leat {

/// Whether this build has LEAT_CHECK.
inline constexpr bool kChecks = kExploring;

/// Prints "leat: assertion failed: <condition>: <message> (<file>:<line>)" to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file,
                                   int line) noexcept;

}  // namespace leat

#define LEAT_ASSERT(condition, message)              \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::leat::assertion_failed(#condition, message, __FILE__, __LINE__))

#if defined(LEAT_EXPLORE)
#define LEAT_CHECK(condition, message) \
  LEAT_ASSERT(::leat::hooks::unobserved([&] { return condition; }), message)
#else
#define LEAT_CHECK(condition, message) static_cast<void>(0)
#endif
