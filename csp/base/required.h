// What Leat asks of a program that includes it: C++20, and the sanitizer that Leat was built with.
#pragma once

#if __cplusplus < 202002L
#error "Leat needs C++20: compile with -std=c++20 or newer"
#endif

#include "leat/csp/base/sanitizers.h"

// A program with a sanitizer needs a Leat with the same sanitizer: otherwise the tool takes a
// switch of fibers for an error. A Leat without it lacks the symbol, and the program does not link.
#if defined(LEAT_ASAN)
extern "C" const char leat_must_be_built_with_LEAT_SANITIZE_address;
namespace leat {
[[gnu::used]] inline const char* const kHasAddressSanitizer =
    &leat_must_be_built_with_LEAT_SANITIZE_address;
}
#elif defined(LEAT_TSAN)
extern "C" const char leat_must_be_built_with_LEAT_SANITIZE_thread;
namespace leat {
[[gnu::used]] inline const char* const kHasThreadSanitizer =
    &leat_must_be_built_with_LEAT_SANITIZE_thread;
}
#endif
