// One operation on device memory, from its call to its end.
//
// Always true: a work is held by its agreement, until the transport beside has finished that, and
// by its lane, from push() to the end. The last of both gives it back to its pool.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <string>

#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/base/spin_lock.h"

namespace leat::comm::nccl {

class NcclTransport;
class Works;

/// What NCCL needs of an operation. The operation itself may have ended, once the world has failed.
struct Work {
  Operation* operation = nullptr;  // pending in the world
  Signature signature;
  const void* in = nullptr;
  void* out = nullptr;
  std::array<char, 64> label = {};
  Operation agreement;             // on the transport beside
  NcclTransport* owner = nullptr;  // who began it
  Works* pool = nullptr;
  Work* pair = nullptr;  // of a message to oneself: the recv
  Work* next = nullptr;  // in a lane's queue
  std::atomic<int> holders{0};
  std::list<Work>::iterator self;  // in its pool's list

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return signature.count * gpu::size_of(signature.dtype);
  }
  /// "all_reduce of 25 float32 (number 7) in device memory of tensor fc1".
  [[nodiscard]] std::string text() const {
    Operation named{.signature = signature};
    if (label[0] != '\0') named.label = label.data();
    return describe(named);
  }
};

/// The works of one transport. Thread-safe.
class Works {
 public:
  Works() = default;
  Works(const Works&) = delete;
  Works& operator=(const Works&) = delete;
  ~Works() = default;

  /// A work of `operation` without holders. Throws std::bad_alloc.
  [[nodiscard]] Work& take(Operation& operation) {
    Work* work = nullptr;
    {
      const SpinLockGuard guard(lock_);
      if (free_.empty()) free_.emplace_back();
      used_.splice(used_.end(), free_, free_.begin());
      work = &used_.back();
      work->self = std::prev(used_.end());
    }
    work->operation = &operation;
    work->signature = operation.signature;
    work->in = operation.in;
    work->out = operation.out;
    work->label[0] = '\0';
    if (operation.label != nullptr) {
      std::strncpy(work->label.data(), operation.label, work->label.size() - 1);
    }
    work->pool = this;
    work->pair = nullptr;
    work->holders.store(2, std::memory_order_relaxed);
    return *work;
  }
  /// Something is under way for which the owner has to wait.
  void begin() noexcept { busy_.fetch_add(1, std::memory_order_relaxed); }
  /// It has ended. The owner may be gone when this returns.
  void end() noexcept { busy_.fetch_sub(1, std::memory_order_release); }
  /// As end(), for a holder of the work.
  void release(Work& work) noexcept {
    if (work.holders.fetch_sub(1, std::memory_order_acq_rel) == 1) give(work);
    end();
  }
  /// A work that nobody holds, or that was not begun.
  void give(Work& work) noexcept {
    const SpinLockGuard guard(lock_);
    free_.splice(free_.begin(), used_, work.self);
  }
  [[nodiscard]] bool is_idle() const noexcept { return busy_.load(std::memory_order_acquire) == 0; }

 private:
  SpinLock lock_;
  std::list<Work> free_ LEAT_GUARDED_BY(lock_);
  std::list<Work> used_ LEAT_GUARDED_BY(lock_);
  std::atomic<std::int64_t> busy_{0};
};

}  // namespace leat::comm::nccl
