#include "leat/csp/error.h"

#include <cstdio>
#include <cstdlib>

#include "leat/csp/explore/hooks.h"
#include "leat/csp/wait/assert.h"

namespace leat {

void assertion_failed(const char* condition, const char* message, const char* file,
                      int line) noexcept {
#if defined(LEAT_EXPLORE)
  if (hooks::active()) hooks::fail(message);
#endif
  std::fprintf(stderr, "leat: assertion failed: %s: %s (%s:%d)\n", condition, message, file, line);
  std::abort();
}

}  // namespace leat
