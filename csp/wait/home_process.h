// For objects that do not survive fork(): their threads are not in the child.
#pragma once

#include <sys/types.h>

namespace leat {

/// The process in which an object was made. Thread-safe.
class HomeProcess {
 public:
  /// The calling process.
  HomeProcess() noexcept : id_(current()) {}
  /// Whether the calling process is the one. False in its children. Costs a load.
  [[nodiscard]] bool is_here() const noexcept { return id_ == current(); }
  /// Throws std::logic_error in another process. `object` is what was used, such as "a Scheduler".
  void require(const char* object) const {
    if (!is_here()) refuse(object);
  }

 private:
  /// The process's id, without a system call.
  [[nodiscard]] static pid_t current() noexcept;
  [[noreturn]] void refuse(const char* object) const;

  pid_t id_;
};

}  // namespace leat
