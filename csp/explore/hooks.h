// Where somebody else may come in between: what exploring builds (csp/explore.h) hook into the
// core. In every other build each of these is nothing.
//
// An exploring build is one with LEAT_EXPLORE defined, everywhere. It simulates the operating
// system on one thread: its threads are virtual, and the explorer switches between them in these
// functions only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace leat {

#if defined(LEAT_EXPLORE)

inline constexpr bool kExploring = true;

namespace hooks {

/// Another thread may run here. Stands before every access to what several threads touch.
void sched_point() noexcept;
/// What sched_point() stood before has been done to `object`. `changed`: it is not what it was.
/// Neither looks at the object, which may be gone.
void accessed(const void* object, bool changed) noexcept;
/// sched_point() before a lock is taken: returns once `word` is 0, and nobody else runs until it is
/// set.
void before_lock(const std::atomic<std::uint32_t>& word) noexcept;
/// sched_point() before a lock is dropped.
void before_unlock(const std::atomic<std::uint32_t>& word) noexcept;
/// In a loop that waits for somebody, and may do so for ever: the others go first.
void pause() noexcept;
/// In a loop that ends after some time: that passes.
void spin() noexcept;
/// Any number below `count`: the explorer tries all of them.
std::size_t choose(std::size_t count) noexcept;
/// Nanoseconds since the exploration's epoch.
std::int64_t now() noexcept;
/// Cycles of the calling thread, one a nanosecond.
std::uint64_t cycles() noexcept;
/// Sleeps as futex_wait(): until `deadline` in nanoseconds, or for ever if that is the largest.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
              std::int64_t deadline) noexcept;
void wake(const void* word, bool all) noexcept;
/// The present schedule has shown a bug. Never returns.
[[noreturn]] void fail(const char* what) noexcept;
/// Whether the caller runs under an explorer.
[[nodiscard]] bool active() noexcept;
/// Memory at addresses that grow from one call to the next: those of channels decide in which order
/// a select locks them, and a schedule must mean the same every time.
void* allocate(std::size_t size);
void deallocate(void* memory, std::size_t size) noexcept;

}  // namespace hooks

#else

inline constexpr bool kExploring = false;

namespace hooks {

inline void sched_point() noexcept {}
inline void before_lock(const std::atomic<std::uint32_t>& /*word*/) noexcept {}
inline void before_unlock(const std::atomic<std::uint32_t>& /*word*/) noexcept {}
inline void pause() noexcept {}
inline void spin() noexcept {}

}  // namespace hooks

#endif

}  // namespace leat
