// Objects that are used again instead of being destroyed, so that nothing is allocated after
// warm-up.
//
// Always true: an object is in its pool's list exactly while no Ref refers to it. An object in use
// keeps its pool, so that the last Ref may go after everybody else has let go of the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "leat/csp/wait/spin_lock.h"

namespace leat::gpu {

/// Made with std::make_shared. T has `void recycle() noexcept`, which is called when the last Ref
/// to an object goes, and makes it as new. Thread-safe.
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
  /// One user of an object, or none; a copy is another user. With the last one the object goes back
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
      // release: this user is done with the object before it is used again; acquire: so is every
      // other one.
      if (entry_ != nullptr && entry_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        put(*entry_);
      }
    }

    /// False for none.
    [[nodiscard]] explicit operator bool() const noexcept { return entry_ != nullptr; }
    /// The object; not of none.
    [[nodiscard]] T& operator*() const noexcept { return entry_->value; }
    [[nodiscard]] T* operator->() const noexcept { return &entry_->value; }
    /// Whether both are users of the same object, or none.
    friend bool operator==(const Ref& a, const Ref& b) noexcept = default;
    /// Gives the reference away, as a word, of which adopt() makes one again. Not of an empty one.
    [[nodiscard]] void* release() noexcept { return std::exchange(entry_, nullptr); }
    /// Once for each release().
    [[nodiscard]] static Ref adopt(void* released) noexcept {
      return Ref(static_cast<Entry*>(released));
    }

   private:
    friend class Pool;
    explicit Ref(Entry* counted) noexcept : entry_(counted) {}
    Entry* entry_ = nullptr;
  };

  /// What a released reference refers to.
  [[nodiscard]] static T& value(void* released) noexcept {
    return static_cast<Entry*>(released)->value;
  }

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    while (free_ != nullptr) delete std::exchange(free_, free_->next);
  }

  /// An object that nobody uses. `args`, the same at every call, make a new one where there is
  /// none.
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
    const std::shared_ptr<Pool> home = std::move(entry.home);  // perhaps the pool's last
    const SpinLockGuard guard(home->lock_);
    entry.next = home->free_;
    home->free_ = &entry;
  }

  SpinLock lock_;
  Entry* free_ LEAT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace leat::gpu
