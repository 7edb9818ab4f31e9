// For objects that do not survive fork(): their threads are not in the child.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace leat {

/// The process in which an object was made. Thread-safe.
class HomeProcess {
 public:
  /// The calling process.
  HomeProcess() noexcept : id_(current()) {}
  /// Returns whether the calling process is this one; false in its children. Costs a load.
  [[nodiscard]] bool is_here() const noexcept { return id_ == current(); }
  /// Throws std::logic_error in another process. `object` is what was used, such as "a Scheduler".
  void require(const char* object) const {
    if (!is_here()) refuse(object);
  }

 private:
  /// Returns the process's id, without a system call.
  [[nodiscard]] static pid_t current() noexcept;
  [[noreturn]] void refuse(const char* object) const;

  pid_t id_;
};

/// Returns the T of the calling process: made by the first call, never destroyed. A child of fork()
/// has its own: a thread of the parent may have held a lock of the parent's. Thread-safe.
template <class T>
T& of_this_process() {
  struct Instance {
    const Instance* before;  // so that the parent's does not look leaked
    HomeProcess home{};
    T object{};
  };
  static constinit std::atomic<Instance*> latest{nullptr};
  Instance* instance = latest.load(std::memory_order_acquire);
  while (instance == nullptr || !instance->home.is_here()) {
    Instance* const fresh = new Instance{.before = instance};
    if (latest.compare_exchange_strong(instance, fresh, std::memory_order_acq_rel)) {
      instance = fresh;
    } else {
      delete fresh;
    }
  }
  return instance->object;
}

}  // namespace leat
