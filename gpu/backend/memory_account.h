// How much memory a device's buffers take, and how much they may.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "leat/csp/wait/spin_lock.h"

namespace leat::gpu {

/// Where memory lies. The type of a span carries it, so that a copy's direction is checked by the
/// compiler.
enum class Space : bool { kDevice, kPinned };
/// "device" or "pinned", for messages.
[[nodiscard]] constexpr const char* to_string(Space space) noexcept {
  return space == Space::kDevice ? "device" : "pinned";
}

/// The most that the buffers and arenas of one opened device may take together, in bytes; 0: as
/// much as there is. What exceeds it is refused with GpuError, before anything is allocated.
struct MemoryCaps {
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;
};

/// What the buffers and arenas of one opened device take, in bytes.
struct MemoryFigures {
  std::size_t used = 0;
  std::size_t peak = 0;  // the most that was used at a time
  std::size_t cap = 0;   // 0: none
};
/// The same of both kinds of memory.
struct MemoryUse {
  MemoryFigures device;
  MemoryFigures pinned;
};

/// One line of that account. Thread-safe.
class MemoryAccount {
 public:
  /// The most that reserve() may sum up to; 0: as much as there is. What is in use stays so.
  void set_cap(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    cap_ = bytes;
  }
  /// Room for an allocation, which settle() or cancel() follows. False if it would exceed the cap;
  /// nothing has changed then.
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    const std::size_t most = cap_ != 0 ? cap_ : std::numeric_limits<std::size_t>::max();
    const std::size_t taken = used_ + reserved_;
    if (taken > most || bytes > most - taken) return false;
    reserved_ += bytes;
    return true;
  }
  /// What reserve() has made room for is there.
  void settle(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    reserved_ -= bytes;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }
  /// It could not be had.
  void cancel(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    reserved_ -= bytes;
  }
  /// Of what settle() has counted.
  void give_back(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    used_ -= bytes;
  }
  /// What is used and what is being allocated.
  [[nodiscard]] std::size_t taken() const noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    return used_ + reserved_;
  }
  /// All of one moment.
  [[nodiscard]] MemoryFigures figures() const noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    return {.used = used_, .peak = peak_, .cap = cap_};
  }

 private:
  mutable SpinLock lock_;
  std::size_t reserved_ LEAT_GUARDED_BY(lock_) = 0;  // with used_ no more than fits in a size_t
  std::size_t used_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t peak_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t cap_ LEAT_GUARDED_BY(lock_) = 0;
};

class Backend;
/// MemoryAccount::reserve() on that account of the backend's. Throws GpuError, with the sums, over
/// its cap.
void reserve_memory(Backend& backend, Space space, std::size_t bytes);

}  // namespace leat::gpu
