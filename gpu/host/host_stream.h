// A stream of the host device: a FIFO of operations and the fiber that runs them.
//
// Always true:
//  - operations are run in the order they were sent to the channel, by one fiber;
//  - every operation sent is run or, once the device has failed, ended with the device's error: no
//    record stays without its completion;
//  - the channel is closed by destroy_stream or, if the scheduler ends first, by the fiber.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "leat/csp/channel.h"
#include "leat/csp/unique_function.h"
#include "leat/gpu/backend.h"
#include "leat/gpu/host/completion.h"
#include "leat/gpu/host/engines.h"

namespace leat::gpu::host {

struct CopyOperation {
  void* to;
  const void* from;
  std::size_t bytes;
  CopyDirection direction;
};
struct KernelOperation {
  UniqueFunction<void()> function;
  Duration modelled_time;
};
struct RecordOperation {
  std::shared_ptr<Completion> completion;
};
struct WaitOperation {
  std::shared_ptr<Completion> completion;
};
/// Keeps memory alive until the stream has come this far.
struct RetainOperation {
  std::shared_ptr<void> memory;
};
using HostOperation = std::variant<CopyOperation, KernelOperation, RecordOperation, WaitOperation,
                                   RetainOperation>;

class HostStream {
 public:
  HostStream(std::shared_ptr<Engines> engines, std::string name);

  /// Waits while the queue is full (not a cancellation point). Throws GpuError if the device has
  /// failed.
  void enqueue(HostOperation operation);
  [[nodiscard]] bool is_done() const noexcept;
  /// No more operations come; the fiber ends when those queued have run.
  void close() noexcept { operations_.try_close(); }
  /// The fiber's body.
  void run() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  /// As deep as a CUDA stream's launch queue: the host runs ahead, but not for ever.
  static constexpr std::int64_t kQueueDepth = 1024;

  void perform(HostOperation& operation);
  void end_with_error(HostOperation& operation) noexcept;

  const std::shared_ptr<Engines> engines_;
  const std::string name_;
  Channel<HostOperation> operations_;
  std::atomic<std::uint64_t> enqueued_{0};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace leat::gpu::host
