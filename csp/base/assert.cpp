#include "leat/csp/base/assert.h"

#include <cstdio>
#include <cstdlib>

#include "leat/csp/base/hooks.h"

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
