// Calls that tell where another thread of the core may run. In ordinary builds they do nothing.
//
// An exploring build (csp/explore.h) has LEAT_EXPLORE defined in every file. It simulates the
// operating system on one thread: the program's threads are simulated ones, and the explorer
// switches between them in these functions only.
//
// A chaos build (tests/csp/chaos) has LEAT_CHAOS defined in every file. A thread sometimes sleeps
// for a while after an access or a release, as if it had lost its CPU: others then overtake it at
// places where that is rare.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace leat {

#if defined(LEAT_EXPLORE)

inline constexpr bool kExploring = true;

class Simulation;

namespace hooks {

/// Another thread may run here. Stands before every access to an object that several threads use.
void sched_point() noexcept;
/// Another thread may run here, too. Stands after a release that lets another thread go on. A
/// sched_point() before the next access is not enough: until then, the thread may touch objects
/// that the other thread frees.
void released() noexcept;
/// The access after the last sched_point() was to `object`. `changed`: its value has changed. Does
/// not read the object, which may be destroyed.
void accessed(const void* object, bool changed) noexcept;
/// The sched_point() before a lock is taken. Returns when `word` is 0; no other thread runs until
/// the caller has set it.
void before_lock(const std::atomic<std::uint32_t>& word) noexcept;
/// The sched_point() before a lock is dropped.
void before_unlock(const std::atomic<std::uint32_t>& word) noexcept;
/// In a loop that waits for another thread without a bound: the other threads run first.
void pause() noexcept;
/// In a loop that ends after some time: simulated time passes.
void spin() noexcept;
/// While it lives, what the caller does is no step, and no access: for a look at the state that
/// leaves the run as it is.
class Unobserved {
 public:
  Unobserved() noexcept;
  ~Unobserved();
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
  /// Returns a number below `count`. The explorer tries all of them. Observed.
  [[nodiscard]] std::size_t choose(std::size_t count) const noexcept;

 private:
  Simulation* const simulation_;
};
/// Returns f(), unobserved.
template <class F>
bool unobserved(F&& f) {
  const Unobserved look;
  return f();
}
/// Simulated nanoseconds since the exploration's epoch.
std::int64_t now() noexcept;
/// The cycle counter of the calling thread: one cycle per nanosecond.
std::uint64_t cycles() noexcept;
/// Simulates futex_wait(): sleeps until `deadline` in nanoseconds, or without a bound if that is
/// the largest value.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
              std::int64_t deadline) noexcept;
/// Simulates futex_wake() and futex_wake_all().
void wake(const void* word, bool all) noexcept;
/// Ends the present schedule as a failure. Never returns.
[[noreturn]] void fail(const char* what) noexcept;
/// Returns whether the caller runs inside an exploration.
[[nodiscard]] bool active() noexcept;
/// Memory whose addresses grow from one call to the next.
void* allocate(std::size_t size);
void deallocate(void* memory, std::size_t size) noexcept;

}  // namespace hooks

#else

inline constexpr bool kExploring = false;

namespace hooks {

#if defined(LEAT_CHAOS)
/// Sleeps once in so many calls.
void sleep_sometimes() noexcept;
inline void accessed(const void* /*object*/, bool /*changed*/) noexcept { sleep_sometimes(); }
inline void released() noexcept { sleep_sometimes(); }
/// Count the spin locks that the calling thread holds.
void before_lock(const std::atomic<std::uint32_t>& word) noexcept;
void before_unlock(const std::atomic<std::uint32_t>& word) noexcept;
#else
inline void released() noexcept {}
inline void before_lock(const std::atomic<std::uint32_t>& /*word*/) noexcept {}
inline void before_unlock(const std::atomic<std::uint32_t>& /*word*/) noexcept {}
#endif

inline void sched_point() noexcept {}
inline void pause() noexcept {}
inline void spin() noexcept {}

}  // namespace hooks

#endif

}  // namespace leat
