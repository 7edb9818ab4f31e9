/* A program in C with AddressSanitizer or ThreadSanitizer needs a Leat that was built with it.
 * Another Leat lacks this symbol, and the program does not link. For C++: csp/base/required.h. */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define LEAT_SANITIZED leat_c_must_be_built_with_LEAT_SANITIZE_address
#elif defined(__SANITIZE_THREAD__)
#define LEAT_SANITIZED leat_c_must_be_built_with_LEAT_SANITIZE_thread
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_SANITIZED leat_c_must_be_built_with_LEAT_SANITIZE_address
#elif __has_feature(thread_sanitizer)
#define LEAT_SANITIZED leat_c_must_be_built_with_LEAT_SANITIZE_thread
#endif
#endif

#if defined(LEAT_SANITIZED)
#ifdef __cplusplus
extern "C" {
#endif
extern const char LEAT_SANITIZED;
static const char* const leat_sanitized __attribute__((used)) = &LEAT_SANITIZED;
#ifdef __cplusplus
}
#endif
#endif
