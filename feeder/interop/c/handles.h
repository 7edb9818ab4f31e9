// Handles of the C API: numbers that look like pointers, so that one that was closed, or is another
// kind's, is recognised without touching what it stood for.
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

/// The objects of one kind that C holds. Never destroyed: what is not closed when the process ends
/// is left to the system. Thread-safe; an object that a call is using lives until that call ends,
/// whoever closes it meanwhile.
///
/// A handle is kind (2 bits), slot (24), and how often the slot was used (38), which begins with 1:
/// none is null, and none comes twice.
template <class T>
class HandleTable {
 public:
  /// `kind` < 4 tells tables apart; `what` ("leat_batch") names it in messages.
  HandleTable(std::uintptr_t kind, const char* what) noexcept : kind_(kind), what_(what) {}

  /// A new handle of `object`. Throws std::bad_alloc, std::length_error where there are too many.
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

  /// Throws std::invalid_argument for null and for what is no open handle, naming `function`.
  [[nodiscard]] std::shared_ptr<T> find(const void* handle, const char* function) const {
    const std::lock_guard lock(mutex_);
    return slots_[index_of(handle, function)].object;
  }

  /// As find(), and the handle is none any more.
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
