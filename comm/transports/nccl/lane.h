// A lane: works that run one after the other, in one order on all of its ranks. It has one
// communicator of NCCL, and its stream.
//
//   push() ──► queue ──► fiber: opens NCCL's communicator, launches ──► in flight ──► finish
//
// Always true:
//  - A work that is pushed on one rank is pushed on all, in the same order: they have agreed on it.
//    So NCCL waits for no rank that does something else.
//  - A work's operation stays pending in the world until NCCL is done with its memory. At its
//    deadline the world fails, and stop() ends what NCCL does.
//  - The fiber runs until close(), also after a failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "leat/comm/transports/nccl/native.h"
#include "leat/comm/transports/nccl/work.h"
#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/bell.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"

namespace leat::comm::nccl {

class Lane {
 public:
  /// Makes a lane of the ranks of `beside`, which carries the name of NCCL's communicator. Only the
  /// lane's owner uses `beside`, too. Throws std::bad_alloc.
  Lane(std::shared_ptr<const Library> library, gpu::Device device,
       std::shared_ptr<comm::Transport> beside);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  /// Waits for the fiber.
  ~Lane();

  /// Adds the next work; call ring() then. Thread-safe, as all that follows.
  void push(Work& work) noexcept;
  void ring() noexcept { bell_.ring(); }
  /// Ends the fiber: nothing more is pushed.
  void close() noexcept;
  /// After close(): waits until the communicator has ended, whatever happens.
  void wait() noexcept;
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_.load(); }
  /// For a world that has failed. When it returns, no memory of operations is used any more.
  void stop() noexcept;

 private:
  struct InFlight {
    Work* work = nullptr;
    std::optional<gpu::Event> event;
  };

  void run();
  [[nodiscard]] Work* pop() noexcept;
  void launch_all();
  void launch(Work& work);
  void open();
  void clear(const Work& work);
  void wait_for_work();
  void finish(Work& work) noexcept;
  void drop() noexcept;
  void fail(const std::exception& error) noexcept;

  const std::shared_ptr<comm::Transport> beside_;
  World& world_;
  Native native_;
  Bell bell_{"comm nccl"};
  std::atomic<bool> is_closing_{false};
  std::atomic<bool> has_ended_{false};

  SpinLock lock_;
  Work* first_ LEAT_GUARDED_BY(lock_) = nullptr;
  Work* last_ LEAT_GUARDED_BY(lock_) = nullptr;

  // The fiber's.
  Work* current_ = nullptr;  // that is launched
  std::list<InFlight> in_flight_;
  std::list<InFlight> unused_;
  std::optional<gpu::PinnedBuffer> zeros_;  // for ranks that contribute nothing
  std::optional<TaskGroup> fiber_;
};

}  // namespace leat::comm::nccl
