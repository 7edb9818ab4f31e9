// What a test's own fixtures allocate does not count (counting_new.h).
#pragma once

namespace leat::support {

/// What operator new does for the calling thread.
struct Allocating {
  bool counted = true;
  bool exhausted = false;  // nothing is left for it
};
inline thread_local constinit Allocating t_allocating;

/// Reads or replaces it. ThreadSanitizer does not see how: to it the fibers of a worker, which
/// share this, are threads of their own.
[[nodiscard]] __attribute__((noinline, no_sanitize("thread"))) inline Allocating
allocating() noexcept {
  return t_allocating;
}
__attribute__((noinline, no_sanitize("thread"))) inline void set_allocating(
    Allocating now) noexcept {
  t_allocating = now;
}

/// While one lives, what the calling thread allocates is (or is not) counted. No fiber may park
/// meanwhile: it might go on on another thread.
class Counting {
 public:
  [[nodiscard]] explicit Counting(bool counted) noexcept : before_(allocating()) {
    set_allocating({.counted = counted, .exhausted = before_.exhausted});
  }
  ~Counting() { set_allocating(before_); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  const Allocating before_;
};

}  // namespace leat::support
