// What a test's own fixtures allocate does not count (counting_new.h).
#pragma once

#include <atomic>

namespace leat::support {

// Atomic for ThreadSanitizer alone, to which the fibers of a worker are threads.
inline thread_local std::atomic<bool> t_counted = true;

/// While one lives, what the calling thread allocates is (or is not) counted. No fiber may park
/// meanwhile: it might go on on another thread.
class Counting {
 public:
  explicit Counting(bool counted) noexcept : before_(t_counted.load(std::memory_order_relaxed)) {
    t_counted.store(counted, std::memory_order_relaxed);
  }
  ~Counting() { t_counted.store(before_, std::memory_order_relaxed); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  const bool before_;
};

}  // namespace leat::support
