// Which sanitizer this file is compiled with, if any: LEAT_ASAN, LEAT_TSAN. For gcc and clang. And
// what ThreadSanitizer must be told, because to it every fiber is a thread of its own.
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

#if defined(LEAT_TSAN)
#include <sanitizer/tsan_interface.h>

// Exported by its runtime, declared by no header that all compilers have.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace leat {

#if defined(LEAT_TSAN)
inline constexpr bool kTsan = true;
#else
inline constexpr bool kTsan = false;
#endif

/// Tells ThreadSanitizer that tsan_release(p) happens before tsan_acquire(p). For data that one
/// fiber passes to another through its worker: one thread to the memory model, several to the tool.
/// No effect in other builds.
inline void tsan_release([[maybe_unused]] void* object) noexcept {
#if defined(LEAT_TSAN)
  __tsan_release(object);
#endif
}
inline void tsan_acquire([[maybe_unused]] void* object) noexcept {
#if defined(LEAT_TSAN)
  __tsan_acquire(object);
#endif
}

/// While one lives, ThreadSanitizer ignores the reads and writes of the calling fiber, but not its
/// synchronisation. For the worker's own state, which its fibers use in turn.
class TsanIgnoreScope {
 public:
  TsanIgnoreScope() noexcept {
#if defined(LEAT_TSAN)
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~TsanIgnoreScope() {
#if defined(LEAT_TSAN)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  TsanIgnoreScope(const TsanIgnoreScope&) = delete;
  TsanIgnoreScope& operator=(const TsanIgnoreScope&) = delete;
};

}  // namespace leat
