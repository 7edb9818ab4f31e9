// A stream of the host device: a FIFO of operations and the fiber that runs them.
//
// Always true:
//  - operations are run in the order they were sent to the channel, by one fiber;
//  - every operation sent is run or, once the device has failed, ended with the device's error: no
//    record stays without its completion;
//  - completed_ <= enqueued_, and all that was enqueued before a moment has ended when completed_
//    reaches what enqueued_ was then;
//  - the channel is closed by destroy_stream or, if the scheduler ends first, by the fiber.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "leat/csp/channel.h"
#include "leat/csp/wait/identity.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/csp/wait/unique_function.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/host/completion.h"
#include "leat/gpu/host/engines.h"

namespace leat::gpu::host {

struct CopyOperation {
  void* to;
  const void* from;
  std::size_t bytes;
  CopyDirection direction;
  bool first;  // of those enqueued together, which have one latency
};
struct KernelOperation {
  UniqueFunction<void()> function;
  Duration modelled_time;
};
struct RecordOperation {
  CompletionRef completion;
};
struct WaitOperation {
  CompletionRef completion;
};
struct HostOperation {
  std::variant<CopyOperation, KernelOperation, RecordOperation, WaitOperation> what;
  TimePoint enqueued;  // Engines::enqueue_time()
};

class HostStream {
 public:
  HostStream(std::shared_ptr<Engines> engines, std::string name);

  /// Waits while the queue is full (not a cancellation point). Throws GpuError if the device has
  /// failed.
  template <class Operation>
  void enqueue(Operation operation) LEAT_EXCLUDES(lock_) {
    enqueue_any({.what = std::move(operation), .enqueued = engines_->enqueue_time()});
  }
  [[nodiscard]] bool is_done() const noexcept LEAT_EXCLUDES(lock_);
  /// Keeps `memory` until all that has been enqueued has run. False where there is no memory left
  /// to note that in: then the caller has to keep it until the stream has ended. Never waits: a
  /// kernel's closure may free memory on the stream's own fiber, behind which the queue is full.
  [[nodiscard]] bool retain(const std::shared_ptr<void>& memory) noexcept LEAT_EXCLUDES(lock_);
  /// No more operations come; the fiber ends when those queued have run.
  void close() noexcept { operations_.try_close(); }
  /// The fiber's body.
  void run() noexcept;
  /// Whether the caller is that fiber: a kernel of this stream.
  [[nodiscard]] bool runs_caller() const noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  /// As deep as a CUDA stream's launch queue: the host runs ahead, but not for ever.
  static constexpr std::int64_t kQueueDepth = 1024;

  struct Retained {
    std::uint64_t until;  // completed_ reaches this
    std::shared_ptr<void> memory;
  };

  void enqueue_any(HostOperation operation) LEAT_EXCLUDES(lock_);
  void perform(HostOperation& operation);
  /// Whether it is one that is to fail; then the device has failed.
  [[nodiscard]] bool fails(const HostOperation& operation) noexcept;
  void finish(std::optional<HostOperation>& operation) noexcept LEAT_EXCLUDES(lock_);
  void let_passed_go() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::shared_ptr<void> take_passed() noexcept LEAT_EXCLUDES(lock_);

  const std::shared_ptr<Engines> engines_;
  const std::string name_;
  Channel<HostOperation> operations_;
  TimePoint reached_ = TimePoint::min();  // device time at which all before has run; the fiber's
  std::atomic<const Fiber*> fiber_{nullptr};  // while it runs the queue
  mutable SpinLock lock_;
  std::uint64_t enqueued_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t completed_ LEAT_GUARDED_BY(lock_) = 0;
  std::deque<Retained> retained_ LEAT_GUARDED_BY(lock_);  // by `until`, ascending
};

}  // namespace leat::gpu::host
