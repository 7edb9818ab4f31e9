// Which sanitizer this file is compiled with, if any: LEAT_ASAN, LEAT_TSAN. For gcc and clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define LEAT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define LEAT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LEAT_TSAN 1
#endif
#endif
