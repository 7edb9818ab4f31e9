// LEAT_ASSERT: a broken contract inside Leat stops the program with both sides named.
//
// It is for what cannot happen unless Leat or memory is broken (an impossible state transition, a
// lock order violated). Bad input and a failing environment throw instead; see csp/error.h.
#pragma once

namespace leat {

/// Prints "leat: assertion failed: <condition>: <message> (<file>:<line>)" to stderr and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file,
                                   int line) noexcept;

}  // namespace leat

#define LEAT_ASSERT(condition, message)              \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::leat::assertion_failed(#condition, message, __FILE__, __LINE__))
