// Who has ever operated on an object that fibers wait for.
//
// A report of a deadlock must not be wrong: a plain thread, or a fiber of another scheduler, that
// has used an object once may come back and wake whoever waits for it.
#pragma once

#include <atomic>

namespace leat {

class SchedulerCore;

class Touchers {
 public:
  /// `scheduler` is that of the calling fiber, null on a plain thread. Under the object's lock.
  void note(const SchedulerCore* scheduler) noexcept {
    if (first_ == nullptr) first_ = scheduler;
    if (scheduler == nullptr || scheduler != first_) {
      outside_.store(true, std::memory_order_relaxed);
    }
  }
  /// Whether a plain thread, or fibers of more than one scheduler, have ever operated on the
  /// object.
  [[nodiscard]] bool from_outside() const noexcept {
    return outside_.load(std::memory_order_relaxed);
  }

 private:
  const SchedulerCore* first_ = nullptr;
  std::atomic<bool> outside_{false};
};

}  // namespace leat
