// What a test's own fixtures allocate does not count (counting_new.h).
#pragma once

#include <utility>

namespace leat::support {

inline thread_local bool t_counted = true;

/// While one lives, what the calling thread allocates is (or is not) counted. No fiber may park
/// meanwhile: it might go on on another thread.
class Counting {
 public:
  explicit Counting(bool counted) noexcept : before_(std::exchange(t_counted, counted)) {}
  ~Counting() { t_counted = before_; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  const bool before_;
};

}  // namespace leat::support
