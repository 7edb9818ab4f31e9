// Defines LEAT_ASAN or LEAT_TSAN in builds with that sanitizer, by gcc or clang. Also declares the
// annotations for ThreadSanitizer, which takes every fiber for a separate thread.
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

// ThreadSanitizer's runtime exports these. No header declares them with every compiler.
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
/// fiber passes to another through their worker: the memory model sees one thread, the tool
/// several. No effect in other builds.
inline void tsan_release([[maybe_unused]] void* object) noexcept {
#if defined(LEAT_TSAN)
  __tsan_release(object);
#endif
}
/// The other half of tsan_release().
inline void tsan_acquire([[maybe_unused]] void* object) noexcept {
#if defined(LEAT_TSAN)
  __tsan_acquire(object);
#endif
}

/// A guard: while it lives, ThreadSanitizer ignores the calling fiber's reads and writes, but not
/// its synchronisation. For the worker's own state, which its fibers use in turn.
class TsanIgnoreScope {
 public:
  [[nodiscard]] TsanIgnoreScope() noexcept {
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
