// The device seam: the one polymorphic interface between Leat and a kind of device.
//
// A Backend is one opened device. The value types of gpu/ are small classes over it, and code above
// gpu/ uses those. gpu/host/ and gpu/cuda/ implement it; gpu/device.cpp chooses.
//
// Contract, for every backend:
//  - A stream runs its operations in the order in which they were enqueued. Operations of different
//    streams run in any order and at the same time, except as wait() orders them.
//  - Enqueueing returns before the operation has run. It may wait for room in the stream's queue.
//    Memory that an operation uses must live, unchanged, until the operation has run.
//  - Three words, never mixed: wait (the stream waits, on the device), sync (the caller blocks),
//    await (the calling fiber is suspended).
//  - Every function is thread- and fiber-safe, also on the same handle. The calling thread's
//    current device, if the backend has such a thing, is unchanged on return.
//  - Failures throw GpuError, or OutOfMemory. destroy_* and free_* do not fail. They may be called
//    after the device was lost, and while work that uses the handle is queued on streams that this
//    backend created: the backend makes sure that the work finishes first. free_* may wait for all
//    work that is queued on the device.
//  - Errors of asynchronous work are sticky: the next sync, await or enqueue throws the error, and
//    so do all later ones.
//
// A Backend must outlive its handles; the value types hold it by shared_ptr. The shared_ptr of
// open() may own more than the backend, such as threads; memory_handle() does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/clock.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/handles.h"
#include "leat/gpu/backend/memory_account.h"
#include "leat/gpu/backend/page_mapping.h"
#include "leat/gpu/device.h"
#include "leat/gpu/memory.h"

namespace leat {
class SchedulerCore;
}  // namespace leat

namespace leat::gpu {

/// The direction of a copy.
enum class CopyDirection : std::uint8_t {
  kHostToDevice,    // H2D: from pinned memory
  kDeviceToHost,    // D2H: to pinned memory
  kDeviceToDevice,  // D2D: within one device
};
/// "H2D", "D2H" or "D2D", for messages.
[[nodiscard]] const char* to_string(CopyDirection direction) noexcept;

/// One of several copies that are enqueued together; `bytes` > 0.
struct CopyRange {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// One opened device; the contract is at the top of the file. Functions take handles of this
/// backend, except where they say otherwise.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Returns the description of the device. Does not change.
  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;
  /// Returns the capabilities of the device. Does not change.
  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;
  /// "cuda" or "host". A stream may wait for events of any backend of the same family.
  [[nodiscard]] virtual const char* family() const noexcept = 0;
  /// Returns the scheduler of the fibers that complete this device's events, only for comparison;
  /// null if there are none.
  [[nodiscard]] virtual const SchedulerCore* scheduler() const noexcept = 0;
  /// Returns the scheduler that this backend owns, or null. It runs as long as a handle or a stream
  /// of the device lives (Device::for_memory()). Lets callers avoid starting a second one.
  [[nodiscard]] virtual std::shared_ptr<SchedulerCore> own_scheduler() const noexcept {
    return nullptr;
  }

  /// Makes a stream that does not synchronise with any other stream implicitly. Throws GpuError if
  /// only memory of the device is left (Device::for_memory()).
  virtual StreamHandle create_stream() = 0;
  /// Ends the stream when its queued work has run. Does not wait for that.
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  /// Makes a handle of a foreign stream (CUDA: a cudaStream_t). The handle is not destroyed. Throws
  /// GpuError for null (its meaning depends on the caller's compile flags), for a stream that is
  /// being captured into a graph, and for a stream that the backend does not know.
  virtual StreamHandle wrap_stream(void* native) = 0;
  /// The device's legacy default stream, which accepts everything but copies. Throws GpuError if
  /// there is none.
  virtual StreamHandle legacy_stream() = 0;
  /// Returns whether work enqueued now becomes part of a graph instead of being run.
  [[nodiscard]] virtual bool is_capturing(StreamHandle stream) = 0;
  /// Returns the backend's own stream, to launch kernels with: a cudaStream_t; null if it has none.
  [[nodiscard]] virtual void* native_handle(StreamHandle stream) const noexcept = 0;
  /// Blocks the caller until all enqueued work has run.
  virtual void sync(StreamHandle stream) = 0;
  /// Returns whether all enqueued work has run. Does not block. If it has run and the device has
  /// failed, throws the device's error.
  [[nodiscard]] virtual bool is_done(StreamHandle stream) = 0;

  /// Makes an event that was never recorded, hence is done. elapsed() needs a timed one.
  virtual EventHandle create_event(bool timed) = 0;
  /// Destroys the event. Streams and fibers that wait for one of its records go on waiting for it.
  virtual void destroy_event(EventHandle event) noexcept = 0;
  /// Records `event`: it is done when all work enqueued on `stream` before has run. Recording again
  /// replaces the earlier record for later waits; waits already enqueued keep the earlier one.
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  /// Makes later work of `stream` run after the latest record of `event` at this call. The event
  /// may belong to another device of the same family. On the host device the wait fails if that
  /// device has failed (this call throws) or fails while the stream waits (this stream's work
  /// fails).
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  /// Blocks the caller until the latest record at this call is done. On the host device a fiber is
  /// suspended.
  virtual void sync(EventHandle event) = 0;
  /// Whether the latest record is done. Does not block. Throws as is_done(StreamHandle) does.
  [[nodiscard]] virtual bool is_done(EventHandle event) = 0;
  /// Suspends the calling fiber (blocks a plain thread) until the latest record at this call is
  /// done. Throws Cancelled.
  virtual void await(EventHandle event) = 0;
  /// Calls signal->notify() once the latest record of `event` at this call is done or has failed:
  /// on any thread or fiber, and within this call if it is done already. The backend holds a
  /// reference until then.
  virtual void subscribe(EventHandle event, const DoneSignalRef& signal) = 0;
  /// Ends a subscription. Called once by the subscriber. Does not wait for a notify() that is under
  /// way.
  virtual void unsubscribe(DoneSignal& signal) noexcept = 0;
  /// The time between two timed events that are both recorded and done, in the device's resolution.
  [[nodiscard]] virtual Duration elapsed(EventHandle start, EventHandle end) = 0;

  /// Allocates `bytes` > 0 of device memory, aligned to 256. May wait for work that uses memory
  /// freed before. Throws OutOfMemory; the device goes on working.
  virtual void* allocate_device(std::size_t bytes) = 0;
  /// Frees memory that was allocated without a stream. Returns false if it cannot wait for the work
  /// on that memory: a stream is being captured into a graph, the device has failed, or there is no
  /// memory to note the users in. Such memory is not freed before the device is destroyed, if ever.
  [[nodiscard]] virtual bool free_device(void* memory) noexcept = 0;
  /// Allocates device memory in the order of `stream`, for later work there and for work that waits
  /// for such work.
  virtual void* allocate_device(std::size_t bytes, StreamHandle stream) = 0;
  /// Frees memory that was allocated with `stream`, which may have been destroyed since, when the
  /// work enqueued there has run. Work on other streams must come before that. Does not wait if
  /// Capabilities::stream_ordered_memory. Returns as free_device(void*) does.
  [[nodiscard]] virtual bool free_device(void* memory, StreamHandle stream) noexcept = 0;

  /// Allocates host memory that every device of the family copies from and to asynchronously.
  /// Aligned to a page.
  virtual void* allocate_pinned(std::size_t bytes, PinnedUse use) = 0;
  /// Frees memory of allocate_pinned(). Returns as free_device(void*) does.
  [[nodiscard]] virtual bool free_pinned(void* memory) noexcept = 0;
  /// Pins pages. If it throws, no page is pinned; if it could not undo what it had begun,
  /// it has abandoned the pages.
  virtual void pin_pages(PageMapping& pages) = 0;
  /// Unpins pages if they `are_pinned`, and unmaps them, once the work queued on streams that this
  /// backend created has run; work elsewhere must have run before. Returns false as
  /// free_device(void*) does, and has then abandoned the pages.
  [[nodiscard]] virtual bool free_pages(PageMapping pages, bool are_pinned) noexcept = 0;

  /// Enqueues a copy. The ranges must not overlap. Zero bytes is no operation.
  virtual void copy_async(StreamHandle stream, void* to, const void* from, std::size_t bytes,
                          CopyDirection direction) = 0;
  /// Enqueues several copies in one direction, which run in any order among each other. No
  /// destination may overlap another range.
  virtual void copy_batch_async(StreamHandle stream, std::span<const CopyRange> copies,
                                CopyDirection direction) = 0;
  /// Enqueues a call of `function` in stream order. On the host device it is a kernel: it occupies
  /// the compute engine for at least `modelled_time` of the scheduler's clock. On CUDA it runs on a
  /// driver's thread (cudaLaunchHostFunc): it must not call CUDA, is skipped after an error, and
  /// ignores `modelled_time`; do not use it on a hot path there.
  virtual void launch_host(StreamHandle stream, UniqueFunction<void()> function,
                           Duration modelled_time) = 0;

  /// Calls function(argument) with the device current on the calling thread, for libraries that use
  /// the current device, and then restores what was current. The function may make calls that are
  /// unsafe beside a capture, and must not park. Throws GpuError if the device cannot be made
  /// current; then it does not call.
  virtual void call_current(void (*function)(void*), void* argument) { function(argument); }

  // Common to all backends:

  /// The backend for Device::for_memory(): without what runs its streams, if that ends first.
  [[nodiscard]] std::shared_ptr<Backend> memory_handle() { return shared_from_this(); }
  /// Returns the account of this kind of memory, for buffers and arenas; see MemoryCaps.
  [[nodiscard]] MemoryAccount& account(MemorySpace space) noexcept {
    return space == MemorySpace::kDevice ? device_account_ : pinned_account_;
  }
  /// A signal for on_done. Allocates only if the pool has none.
  [[nodiscard]] DoneSignalRef take_signal() { return signals_->take(); }

 private:
  MemoryAccount device_account_;
  MemoryAccount pinned_account_;
  const std::shared_ptr<Pool<DoneSignal>> signals_ = std::make_shared<Pool<DoneSignal>>();
};

}  // namespace leat::gpu
