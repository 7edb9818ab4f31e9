// Who has ever operated on an object that fibers wait for.
//
// A report of a deadlock must not be wrong: a plain thread, or a fiber of another scheduler, that
// has used an object once may come back and wake whoever waits for it.
#pragma once

#include "leat/csp/base/atomic.h"
#include "leat/csp/wait/identity.h"

namespace leat {

class Touchers {
 public:
  /// `scheduler` is that of the calling fiber, null on a plain thread. Under the object's lock.
  void note(const SchedulerCore* scheduler) noexcept {
    if (__builtin_expect(knows(scheduler), 1)) return;
    if (scheduler != nullptr && first_.load(std::memory_order_relaxed) == nullptr) {
      first_.store(scheduler, std::memory_order_relaxed);
    } else {
      outside_.store(true, std::memory_order_relaxed);
    }
  }
  /// As if nobody had. Under the object's lock, while nobody waits for it.
  void forget() noexcept {
    first_.store(nullptr, std::memory_order_relaxed);
    outside_.store(false, std::memory_order_relaxed);
  }
  /// Whether note() of the same would change nothing.
  [[nodiscard]] bool knows(const SchedulerCore* scheduler) const noexcept {
    return (scheduler != nullptr && first_.load(std::memory_order_relaxed) == scheduler) ||
           from_outside();
  }
  /// Whether a plain thread, or fibers of more than one scheduler, have ever operated on the
  /// object.
  [[nodiscard]] bool from_outside() const noexcept {
    return outside_.load(std::memory_order_relaxed);
  }

 private:
  Atomic<const SchedulerCore*> first_{nullptr};
  Atomic<bool> outside_{false};
};

}  // namespace leat
