// Counts the memory that a device's buffers take, and enforces the limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "leat/csp/base/spin_lock.h"
#include "leat/gpu/memory.h"

namespace leat::gpu {

/// Counts one kind of memory of one device, in bytes. An allocation calls reserve(), then commit()
/// or rollback(); a deallocation calls release(). Thread-safe.
class MemoryAccount {
 public:
  /// Sets the limit of reserve(); 0: none. Memory in use stays.
  void set_cap(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    cap_ = bytes;
  }
  /// Reserves room for an allocation. Returns false, and changes nothing, if that would exceed the
  /// limit.
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    const std::size_t most = cap_ != 0 ? cap_ : std::numeric_limits<std::size_t>::max();
    const std::size_t taken = used_ + reserved_;
    if (taken > most || bytes > most - taken) return false;
    reserved_ += bytes;
    return true;
  }
  /// Counts reserved memory as used: it was allocated.
  void commit(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    reserved_ -= bytes;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }
  /// Ends a reservation: the memory could not be allocated.
  void rollback(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    reserved_ -= bytes;
  }
  /// Counts committed memory as free.
  void release(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    used_ -= bytes;
  }
  /// Bytes in use and bytes reserved, together.
  [[nodiscard]] std::size_t taken() const noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    return used_ + reserved_;
  }
  /// Use, peak and limit, all at one moment.
  [[nodiscard]] MemoryFigures figures() const noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    return {.used = used_, .peak = peak_, .cap = cap_};
  }

 private:
  mutable SpinLock lock_;
  std::size_t reserved_ LEAT_GUARDED_BY(lock_) = 0;  // used_ + reserved_ fits in a size_t
  std::size_t used_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t peak_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t cap_ LEAT_GUARDED_BY(lock_) = 0;
};

class Backend;
/// Calls MemoryAccount::reserve() on the backend's account of this kind of memory. Throws GpuError,
/// with the sums in its text, if the limit would be exceeded.
void reserve_memory(Backend& backend, MemorySpace space, std::size_t bytes);

}  // namespace leat::gpu
