// The memory of a host device: its buffers' bytes, under a limit.
//
// Always true: a block counts against the limit from before its bytes are allocated until after
// they are freed. That is when its last owner releases it: the user, or the last stream that may
// still use it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/gpu/host/engines.h"

namespace leat::gpu::host {

/// Memory of one kind. A block that its user has freed comes back once no stream may use it. An
/// allocation that needs the room waits for the block. Make it with std::make_shared. Thread-safe,
/// fiber-safe.
class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  /// `kind` is the name of this memory for messages; it must outlive this object.
  HostMemory(const char* kind, std::align_val_t alignment, std::size_t cap)
      : kind_(kind), alignment_(alignment), cap_(cap) {}

  /// One allocation, freed with its last owner.
  class Block {
   public:
    Block(std::shared_ptr<HostMemory> owner, std::size_t bytes) noexcept
        : owner_(std::move(owner)), bytes_(bytes) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();
    [[nodiscard]] void* get() const noexcept { return memory_; }
    /// Frees the block for its user; streams may still use it. Called once, before a stream holds
    /// it.
    void free() noexcept;
    /// After free(): says that the block will not come back soon. Allocations do not wait for it.
    void leak() noexcept;
    std::shared_ptr<Block> next;  // link for an owner that keeps several blocks

   private:
    friend class HostMemory;
    /// Called once. Returns false if there is not enough memory; `used` is then what others use.
    bool allocate(const Engines& engines, bool waits, std::size_t& used);

    const std::shared_ptr<HostMemory> owner_;
    const std::size_t bytes_;
    void* memory_ = nullptr;
    bool reserved_ = false;
    bool freed_ = false;
  };

  /// Allocates a block. If `waits`, waits for freed blocks to come back if that makes enough room.
  /// Not a cancellation point, except in a deadlock. Throws OutOfMemory.
  std::shared_ptr<Block> allocate(std::size_t bytes, const Engines& engines, bool waits);

 private:
  /// Reserves room. Sets `used` to the bytes that were in use before.
  bool reserve(std::size_t bytes, const Engines& engines, bool waits, std::size_t& used)
      LEAT_EXCLUDES(lock_);
  /// Returns whether there is no room now, and enough once all freed blocks have come back.
  [[nodiscard]] bool worth_waiting_for(std::size_t bytes) const noexcept LEAT_REQUIRES(lock_);
  /// Waits until a block has come back, unless there is room meanwhile.
  void wait_for_some(std::size_t bytes, const Engines& engines) LEAT_EXCLUDES(lock_);
  void note_freed(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_);
  void note_leaked(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_);
  void release(std::size_t bytes, bool expected) noexcept LEAT_EXCLUDES(lock_);

  const char* const kind_;
  const std::align_val_t alignment_;
  const std::size_t cap_;
  SpinLock lock_;
  std::size_t used_ LEAT_GUARDED_BY(lock_) = 0;  // at most cap_
  // Bytes of used_ that their users have freed.
  std::size_t pending_free_ LEAT_GUARDED_BY(lock_) = 0;
  CallerSet callers_;                         // add() under lock_
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);  // allocations that wait for room
};

}  // namespace leat::gpu::host
