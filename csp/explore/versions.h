// The versions of the objects that simulated threads share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace leat {

/// For every object, a hash that identifies its last change. A hash table that is cleared in
/// constant time. Not thread-safe.
class Versions {
 public:
  Versions() : slots_(kFirstSize) {}
  /// The object's version; 0 until it is set. Does not read the object. The reference is valid
  /// until the next call. Throws std::bad_alloc.
  std::uint64_t& at(const void* object);
  /// Sets all versions to 0.
  void clear() noexcept;

 private:
  static constexpr std::size_t kFirstSize = 4096;
  struct Slot {
    const void* object = nullptr;
    std::uint64_t epoch = 0;
    std::uint64_t version = 0;
  };
  void grow();

  std::vector<Slot> slots_;
  std::uint64_t epoch_ = 1;
  std::size_t used_ = 0;
};

}  // namespace leat
