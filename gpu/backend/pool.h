// Objects that are reused instead of being destroyed, so that nothing is allocated after warm-up.
//
// Always true: an object is in its pool's list exactly while no Ref refers to it. An object in use
// holds its pool, so the last Ref may be released after all other owners of the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "leat/csp/base/spin_lock.h"

namespace leat::gpu {

/// A pool of T; make it with std::make_shared. T has `void recycle() noexcept`, which makes an
/// object as new; it is called when the last Ref to the object is released. Thread-safe.
template <class T>
class Pool : public std::enable_shared_from_this<Pool<T>> {
  struct Entry {
    template <class... Args>
    explicit Entry(Args&&... args) : value(std::forward<Args>(args)...) {}
    T value;
    std::atomic<std::uint32_t> users{0};
    Entry* next = nullptr;       // in the list
    std::shared_ptr<Pool> home;  // while in use
  };

 public:
  /// A reference to an object, or empty. When the last reference is released, the object goes back
  /// to its pool. As thread-safe as std::shared_ptr.
  class Ref {
   public:
    Ref() noexcept = default;
    Ref(const Ref& other) noexcept : entry_(other.entry_) {
      if (entry_ != nullptr) entry_->users.fetch_add(1, std::memory_order_relaxed);
    }
    Ref(Ref&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Ref() {
      // release: this owner's accesses come before the object is reused; acquire: so do those of
      // all other owners.
      if (entry_ != nullptr && entry_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        put(*entry_);
      }
    }

    /// False if empty.
    [[nodiscard]] explicit operator bool() const noexcept { return entry_ != nullptr; }
    /// Returns the object. Not if empty.
    [[nodiscard]] T& operator*() const noexcept { return entry_->value; }
    [[nodiscard]] T* operator->() const noexcept { return &entry_->value; }
    /// Whether both refer to the same object, or both are empty.
    friend bool operator==(const Ref& a, const Ref& b) noexcept = default;
    /// Gives the reference away as a pointer; adopt() makes a Ref of it again. Not if empty.
    [[nodiscard]] void* release() noexcept { return std::exchange(entry_, nullptr); }
    /// Takes back a reference that release() gave away. Once for each release().
    [[nodiscard]] static Ref adopt(void* released) noexcept {
      return Ref(static_cast<Entry*>(released));
    }

   private:
    friend class Pool;
    explicit Ref(Entry* counted) noexcept : entry_(counted) {}
    Entry* entry_ = nullptr;
  };

  /// Returns the object of a released reference.
  [[nodiscard]] static T& value(void* released) noexcept {
    return static_cast<Entry*>(released)->value;
  }

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    while (free_ != nullptr) delete std::exchange(free_, free_->next);
  }

  /// An unused object. If there is none, makes one from `args`, which must be the same at every
  /// call.
  template <class... Args>
  [[nodiscard]] Ref take(Args&&... args) LEAT_EXCLUDES(lock_) {
    Entry* entry = nullptr;
    {
      const SpinLockGuard guard(lock_);
      if (free_ != nullptr) entry = std::exchange(free_, free_->next);
    }
    if (entry == nullptr) {
      entry = std::make_unique<Entry>(std::forward<Args>(args)...).release();
    }
    entry->users.store(1, std::memory_order_relaxed);
    entry->home = this->shared_from_this();
    return Ref(entry);
  }

 private:
  static void put(Entry& entry) noexcept {
    entry.value.recycle();
    const std::shared_ptr<Pool> home = std::move(entry.home);  // may be the pool's last owner
    const SpinLockGuard guard(home->lock_);
    entry.next = home->free_;
    home->free_ = &entry;
  }

  SpinLock lock_;
  Entry* free_ LEAT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace leat::gpu
