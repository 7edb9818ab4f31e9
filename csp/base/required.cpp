#include "leat/csp/base/required.h"

#if defined(LEAT_ASAN)
const char leat_must_be_built_with_LEAT_SANITIZE_address = 1;
#elif defined(LEAT_TSAN)
const char leat_must_be_built_with_LEAT_SANITIZE_thread = 1;
#endif
