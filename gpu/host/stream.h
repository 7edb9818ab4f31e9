// A stream of the host device: a FIFO of operations, and the fiber that runs them.
//
// Always true:
//  - one fiber runs the operations in the order in which they were sent to the channel;
//  - every operation that was sent is run or, once the device has failed, ended with the device's
//    error: every record is completed;
//  - completed_ <= enqueued_; all work enqueued before a moment has ended when completed_ reaches
//    the value that enqueued_ had at that moment;
//  - the channel is closed by destroy_stream, or by the fiber if the scheduler ends first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/unique_function.h"
#include "leat/csp/channel.h"
#include "leat/csp/wait/identity.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/host/engines.h"
#include "leat/gpu/host/event_record.h"

namespace leat::gpu::host {

/// The operations of a stream.
struct CopyOperation {
  void* to;
  const void* from;
  std::size_t bytes;
  CopyDirection direction;
  bool first;  // first of several copies enqueued together, which have one latency
};
struct KernelOperation {
  UniqueFunction<void()> function;
  Duration modelled_time;
};
struct RecordOperation {
  EventRecordRef record;
};
struct WaitOperation {
  EventRecordRef record;
};
struct HostOperation {
  std::variant<CopyOperation, KernelOperation, RecordOperation, WaitOperation> what;
  TimePoint enqueued;  // Engines::enqueue_time()
};

/// One stream. Thread- and fiber-safe, except for run().
class HostStream {
 public:
  HostStream(std::shared_ptr<Engines> engines, std::string name);

  /// Enqueues an operation. Waits while the queue is full; this is not a cancellation point. Throws
  /// GpuError if the device has failed.
  template <class Operation>
  void enqueue(Operation operation) LEAT_EXCLUDES(lock_) {
    enqueue_any({.what = std::move(operation), .enqueued = engines_->enqueue_time()});
  }
  /// Returns whether all enqueued operations have ended. If true, their effects are visible.
  [[nodiscard]] bool is_done() const noexcept LEAT_EXCLUDES(lock_);
  /// Holds `memory` until all enqueued operations have ended. Returns false if there is no memory
  /// for the entry: the caller then must hold `memory` until the stream has ended. Never waits,
  /// because a kernel's closure may free memory on the stream's own fiber while the queue is full.
  [[nodiscard]] bool retain(const std::shared_ptr<void>& memory) noexcept LEAT_EXCLUDES(lock_);
  /// Ends the queue: the fiber ends when the queued operations have run.
  void close() noexcept { operations_.try_close(); }
  /// The fiber's body: runs the operations until close().
  void run() noexcept;
  /// Returns whether the caller is that fiber, hence a kernel of this stream.
  [[nodiscard]] bool runs_caller() const noexcept;

  /// Returns the stream's name, for reports.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  /// As deep as a CUDA stream's launch queue: bounds how far the host runs ahead.
  static constexpr std::int64_t kQueueDepth = 1024;

  struct Retained {
    std::uint64_t until;  // released when completed_ reaches this
    std::shared_ptr<void> memory;
  };

  void enqueue_any(HostOperation operation) LEAT_EXCLUDES(lock_);
  void perform(HostOperation& operation);
  /// Returns whether a fault is planned for the operation; then makes the device fail.
  [[nodiscard]] bool fails(const HostOperation& operation) noexcept;
  /// Makes the device fail with a GpuError made of these; if memory is lacking, with
  /// std::bad_alloc.
  void fail_device(const char* what, const char* detail, const char* advice) noexcept;
  void finish(std::optional<HostOperation>& operation) noexcept LEAT_EXCLUDES(lock_);
  void release_passed() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool take_passed(std::list<Retained>& passed) noexcept LEAT_EXCLUDES(lock_);

  const std::shared_ptr<Engines> engines_;
  const std::string name_;
  Channel<HostOperation> operations_;
  // Device time of the last operation's end; used by the fiber.
  TimePoint reached_ = TimePoint::min();
  std::atomic<const Fiber*> fiber_{nullptr};  // while it runs the queue
  mutable SpinLock lock_;
  std::uint64_t enqueued_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t completed_ LEAT_GUARDED_BY(lock_) = 0;
  std::list<Retained> retained_ LEAT_GUARDED_BY(lock_);  // by `until`, ascending
};

}  // namespace leat::gpu::host
