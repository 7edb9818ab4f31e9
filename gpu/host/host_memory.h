// The memory of a host device: what its buffers are made of, under a cap.
//
// Always true: a block counts against the cap from before its bytes are allocated until after they
// are given back, which is when its last owner lets go of it: its user, or the last stream that may
// use it still.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/host/engines.h"

namespace leat::gpu::host {

/// Memory of one kind. What its user has freed is on its way back while streams may use it; whoever
/// is short of memory waits for it. Made with std::make_shared. Thread- and fiber-safe.
class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  /// `kind` is for messages and outlives this.
  HostMemory(const char* kind, std::align_val_t alignment, std::size_t cap)
      : kind_(kind), alignment_(alignment), cap_(cap) {}

  /// A piece of it, which goes with its last owner.
  class Block {
   public:
    Block(std::shared_ptr<HostMemory> owner, std::size_t bytes) noexcept
        : owner_(std::move(owner)), bytes_(bytes) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();
    [[nodiscard]] void* get() const noexcept { return memory_; }
    /// Its user needs it no more; streams may. Called once, before any of them holds it.
    void free() noexcept;
    /// After free(): it stays with whoever keeps it. Nobody waits for it any more.
    void stay() noexcept;
    std::shared_ptr<Block> next;  // of who keeps several, which takes no memory

   private:
    friend class HostMemory;
    /// Once. False if there is not enough; `used` is then what others use.
    bool allocate(const Engines& engines, bool waits, std::size_t& used);

    const std::shared_ptr<HostMemory> owner_;
    const std::size_t bytes_;
    void* memory_ = nullptr;
    bool reserved_ = false;
    bool freed_ = false;
  };

  /// `waits`: where there would be room once all that was freed has come back, the caller waits for
  /// it. Not a cancellation point, unless in a deadlock. Throws GpuError.
  std::shared_ptr<Block> allocate(std::size_t bytes, const Engines& engines, bool waits);

 private:
  /// Sets `used` to what was in use before.
  bool reserve(std::size_t bytes, const Engines& engines, bool waits, std::size_t& used)
      LEAT_EXCLUDES(lock_);
  /// Whether there is no room, and will be when all that is coming back has come.
  [[nodiscard]] bool worth_waiting_for(std::size_t bytes) const noexcept LEAT_REQUIRES(lock_);
  /// Until something has come back, if that is still needed.
  void wait_for_some(std::size_t bytes, const Engines& engines) LEAT_EXCLUDES(lock_);
  void expect_back(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_);
  void expect_no_more(std::size_t bytes) noexcept LEAT_EXCLUDES(lock_);
  void give_back(std::size_t bytes, bool expected) noexcept LEAT_EXCLUDES(lock_);

  const char* const kind_;
  const std::align_val_t alignment_;
  const std::size_t cap_;
  SpinLock lock_;
  std::size_t used_ LEAT_GUARDED_BY(lock_) = 0;         // at most cap_
  std::size_t coming_back_ LEAT_GUARDED_BY(lock_) = 0;  // of these, freed by their users
  Touchers touchers_;                                   // note() under lock_
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);            // for room
};

}  // namespace leat::gpu::host
