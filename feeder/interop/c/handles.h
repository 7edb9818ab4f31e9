// Handles of the C API: numbers that look like pointers. A table recognises a closed handle, or one
// of another kind, without reading memory that may be gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace leat::feeder::c {

/// The objects of one kind that the C program holds. Never destroyed: objects that are not closed
/// when the process ends are left to the system. Thread-safe. An object that a call uses lives
/// until the call ends, also if another thread closes its handle.
///
/// A handle consists of the kind (2 bits), the slot (24 bits), and how often the slot was used (38
/// bits, from 1). So no handle is null, and no handle is given twice.
template <class T>
class HandleTable {
 public:
  /// `kind` < 4 distinguishes tables; `what` ("leat_batch") is the name in messages.
  HandleTable(std::uintptr_t kind, const char* what) noexcept : kind_(kind), what_(what) {}

  /// Returns a new handle for `object`. Throws std::bad_alloc; std::length_error for too many.
  [[nodiscard]] void* insert(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      if (slots_.size() > kSlotMask) {
        throw std::length_error("leat: more than " + std::to_string(kSlotMask) + " of " + what_ +
                                " are open: close those that are not used any more");
      }
      free_.reserve(slots_.size() + 1);  // so that remove() allocates nothing
      slots_.emplace_back();
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.object = std::move(object);
    ++slot.uses;
    return reinterpret_cast<void*>((slot.uses << kUsesShift) | (index << kSlotShift) | kind_);
  }

  /// Returns the object. Throws std::invalid_argument, which names `function`, for null and for
  /// anything that is not an open handle.
  [[nodiscard]] std::shared_ptr<T> find(const void* handle, const char* function) const {
    const std::lock_guard lock(mutex_);
    return slots_[index_of(handle, function)].object;
  }

  /// As find(), and closes the handle.
  [[nodiscard]] std::shared_ptr<T> remove(const void* handle, const char* function) {
    const std::lock_guard lock(mutex_);
    const std::size_t index = index_of(handle, function);
    free_.push_back(index);
    return std::exchange(slots_[index].object, nullptr);
  }

 private:
  static_assert(sizeof(std::uintptr_t) == 8);
  static constexpr unsigned kSlotShift = 2;
  static constexpr unsigned kUsesShift = 26;
  static constexpr std::uintptr_t kSlotMask = (std::uintptr_t{1} << (kUsesShift - kSlotShift)) - 1;

  struct Slot {
    std::shared_ptr<T> object;  // null while the slot is free
    std::uintptr_t uses = 0;
  };

  [[nodiscard]] std::size_t index_of(const void* handle, const char* function) const {
    const auto bits = reinterpret_cast<std::uintptr_t>(handle);
    const std::size_t index = (bits >> kSlotShift) & kSlotMask;
    if ((bits & 3U) == kind_ && index < slots_.size() && slots_[index].object != nullptr &&
        slots_[index].uses == bits >> kUsesShift) {
      return index;
    }
    throw std::invalid_argument(std::string("leat: ") + function + ": the " + what_ +
                                (handle == nullptr ? " is null"
                                                   : " is not open: it was closed, "
                                                     "or never was one"));
  }

  const std::uintptr_t kind_;
  const char* const what_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace leat::feeder::c
