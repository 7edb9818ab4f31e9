// What fibers have done, in the order in which they did it.
//
// The fibers of a single worker take turns, but that alone does not synchronise them, and
// ThreadSanitizer says so of a plain vector.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace leat::support {

template <class T>
class Log {
 public:
  void add(T entry) {
    const std::scoped_lock lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  [[nodiscard]] std::vector<T> entries() const {
    const std::scoped_lock lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;  // never held across a park
  std::vector<T> entries_;
};

}  // namespace leat::support
