// The device seam: the one polymorphic interface between Leat and a kind of device.
//
// A Backend is one device. Everything else in gpu/ is small value types over it, and everything
// above gpu/ uses those. gpu/host/ and gpu/cuda/ implement it; gpu/registry.cpp chooses.
//
// Contract, for every backend:
//  - a stream runs its operations in the order they were enqueued; operations of different streams
//    run in any order and at the same time, except as wait() orders them;
//  - enqueueing returns before the operation has run (it may wait for room in the stream's queue);
//    memory that an operation uses must live, untouched, until it has run;
//  - three words, never mixed: wait (the stream waits, on the device), sync (the caller blocks),
//    await (the calling fiber is suspended);
//  - every function may be called from any thread or fiber, on different handles or the same one,
//    at the same time; the calling thread's current device, if the backend has such a thing, is as
//    before when it returns;
//  - failures throw GpuError. destroy_* and free_* do not fail: they may be called while work that
//    uses the handle is queued on streams that this backend has created (it sees to it that the
//    work finishes first, and free_* may wait for all that is queued on the device), and after the
//    device was lost;
//  - errors of asynchronous work are sticky: they surface at the next sync, await or enqueue, and
//    at all that follow.
//
// A Backend must outlive its handles; the value types hold it by shared_ptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "leat/csp/clock.h"
#include "leat/csp/wait/unique_function.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/host_pages.h"
#include "leat/gpu/backend/memory_account.h"

namespace leat {
class SchedulerCore;
}  // namespace leat

namespace leat::gpu {

/// What a device can do, in place of preprocessor choices.
struct Capabilities {
  /// launch_host runs the function with a modelled duration on the device's compute engine. Where
  /// false (CUDA), the function runs on a driver's thread and must not call the device.
  bool host_kernels = false;
  /// Device memory can be read and written by the CPU directly.
  bool device_memory_is_host_memory = false;
  /// native_handle() is a cudaStream_t, and kernels are launched with it.
  bool cuda_kernels = false;
  /// Its operations take time of the scheduler's clock, which may be virtual.
  bool virtual_time = false;
  /// Streams that were made without Leat can be used: StreamRef::from_native and legacy.
  bool foreign_streams = false;
  /// Memory allocated in a stream's order comes from a pool and is given back without waiting.
  /// Where false, it is allocated and freed as any other.
  bool stream_ordered_memory = false;
  /// Several copies enqueued together are one operation of the device, as far as its versions tell.
  /// Where false, and where the driver then refuses, they are enqueued one by one.
  bool batched_copies = false;
};

/// What a device is.
struct DeviceInfo {
  std::string name;         // as in open(): "cuda:0", "host:0"
  std::string description;  // the product's name
  std::size_t memory_bytes = 0;
  int copy_engines = 0;
  int numa_node = -1;  // that it is attached to; -1: unknown or none
};

/// A backend's own stream and event. Null means none.
enum class StreamHandle : std::uintptr_t { kNone = 0 };
enum class EventHandle : std::uintptr_t { kNone = 0 };

/// From which kind of memory to which.
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

/// How pinned memory is used by the CPU.
enum class PinnedUse : std::uint8_t {
  kReadWrite,
  /// Written in order, and never read: reads are very slow. CUDA: cudaHostAllocWriteCombined. The
  /// host device knows no such memory, and takes ordinary memory.
  kWriteCombined,
};

/// One opened device. What holds for all of its functions is said at the top of the file; the
/// handles that they take are its own, unless one says otherwise.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// What the device is, and what it can do: settled when it is opened.
  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;
  /// Backends whose events' waits may be mixed have the same family: "cuda", "host".
  [[nodiscard]] virtual const char* family() const noexcept = 0;
  /// Whose fibers reach its events; identity only. Null where it is no scheduler's fibers that do.
  [[nodiscard]] virtual const SchedulerCore* scheduler() const noexcept = 0;
  /// The scheduler that it owns, if it has one, for who would otherwise start another beside it: as
  /// long as the device lives.
  [[nodiscard]] virtual std::shared_ptr<SchedulerCore> own_scheduler() const noexcept {
    return nullptr;
  }

  /// A new stream that does not synchronise with any other implicitly.
  virtual StreamHandle create_stream() = 0;
  /// The stream ends when its queued work has run. The caller does not wait for that.
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  /// A foreign stream (for CUDA a cudaStream_t) as a handle, which is not to be destroyed. Refuses
  /// null (ambiguous: it depends on the caller's compile flags), one that is being captured into a
  /// graph, and what the backend does not know.
  virtual StreamHandle wrap_stream(void* native) = 0;
  /// The device's legacy default stream, which takes everything but copies. Throws GpuError where
  /// there is none.
  virtual StreamHandle legacy_stream() = 0;
  /// Whether what is enqueued now becomes part of a graph instead of being run.
  [[nodiscard]] virtual bool is_capturing(StreamHandle stream) = 0;
  /// For the backend's own launch syntax: a cudaStream_t. Null where there is none.
  [[nodiscard]] virtual void* native_handle(StreamHandle stream) const noexcept = 0;
  /// Blocks the caller until all that was enqueued has run.
  virtual void sync(StreamHandle stream) = 0;
  /// Whether all that was enqueued has run. Does not wait. Throws where it would be true and the
  /// device has failed.
  [[nodiscard]] virtual bool is_done(StreamHandle stream) = 0;

  /// An event that was never recorded, hence is done. Only a timed one can be given to elapsed().
  virtual EventHandle create_event(bool timed) = 0;
  /// Who waits for a record of it, a stream or a fiber, goes on waiting for that.
  virtual void destroy_event(EventHandle event) noexcept = 0;
  /// Done when all that was enqueued on `stream` before has run. Recording again replaces the
  /// earlier record for later waits; waits already enqueued keep the one they saw.
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  /// `stream` does nothing enqueued later before the latest record of `event` at this call is done.
  /// The event may be another device's of the same family. On the host device, if that one has
  /// failed, or fails while the stream waits, the wait fails: here, or as this stream's work.
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  /// Blocks the caller until the latest record at this call is done; on the host device a fiber is
  /// suspended.
  virtual void sync(EventHandle event) = 0;
  /// Whether the latest record is done. Does not wait. Throws as that of a stream does.
  [[nodiscard]] virtual bool is_done(EventHandle event) = 0;
  /// Suspends the calling fiber until the latest record is done; blocks a plain thread. Throws
  /// Cancelled.
  virtual void await(EventHandle event) = 0;
  /// Calls signal.reach() once the latest record of `event` at this call is done or has failed, on
  /// any thread or fiber; within this call, if it is. Until then the backend holds a reference.
  virtual void subscribe(EventHandle event, const DoneSignalRef& signal) = 0;
  /// By who subscribed it, once: the signal need not be reached any more. Does not wait for a
  /// reach() that is under way.
  virtual void unsubscribe(DoneSignal& signal) noexcept = 0;
  /// Time between two timed events that are both recorded and done. Resolution: that of the device.
  [[nodiscard]] virtual Duration elapsed(EventHandle start, EventHandle end) = 0;

  /// `bytes` > 0, aligned to 256. May wait for work that uses memory freed before. Throws GpuError
  /// where there is not enough; everything else goes on working.
  virtual void* allocate_device(std::size_t bytes) = 0;
  /// What was allocated without a stream. False where the work that may use it cannot be waited
  /// for: a stream is being captured into a graph, the device has failed, or there is no memory to
  /// note down who uses it. Then it is not given back before the device goes, if ever.
  [[nodiscard]] virtual bool free_device(void* memory) noexcept = 0;
  /// In the order of `stream`: for what is enqueued there from now on, and for what waits for that.
  virtual void* allocate_device(std::size_t bytes, StreamHandle stream) = 0;
  /// What was allocated with `stream`, which may have been destroyed since: goes when what was
  /// enqueued there has run. Work on other streams must come before that. Does not wait, where
  /// Capabilities::stream_ordered_memory. False as above.
  [[nodiscard]] virtual bool free_device(void* memory, StreamHandle stream) noexcept = 0;

  /// Host memory from and to which copies are asynchronous, aligned to a page; usable by every
  /// device of the family.
  virtual void* allocate_pinned(std::size_t bytes, PinnedUse use) = 0;
  /// What allocate_pinned() gave. False as free_device.
  [[nodiscard]] virtual bool free_pinned(void* memory) noexcept = 0;
  /// Pins pages. Throws GpuError, and then has pinned none; where it cannot undo what it has begun,
  /// the pages are abandoned.
  virtual void pin_pages(HostPages& pages) = 0;
  /// Undoes pin_pages, and lets go of the pages, once the work queued on the streams that this
  /// backend has created has run; work elsewhere must have run before. False as free_device: then
  /// the pages are abandoned.
  [[nodiscard]] virtual bool unpin_pages(HostPages pages) noexcept = 0;

  /// Enqueues a copy. The ranges must not overlap. Zero bytes is no operation.
  virtual void copy_async(StreamHandle stream, void* to, const void* from, std::size_t bytes,
                          CopyDirection direction) = 0;
  /// Enqueues several copies in one direction, in any order among each other. No range may overlap
  /// one that is written.
  virtual void copy_batch_async(StreamHandle stream, std::span<const CopyRange> copies,
                                CopyDirection direction) = 0;
  /// Enqueues a call of `function` in stream order. On the host device it is a kernel: it occupies
  /// the compute engine, and takes at least `modelled_time` of the scheduler's clock. On CUDA it
  /// runs on a driver's thread (cudaLaunchHostFunc): it must not call CUDA, is skipped after an
  /// error, and `modelled_time` is ignored; never use it on a hot path there.
  virtual void launch_host(StreamHandle stream, UniqueFunction<void()> function,
                           Duration modelled_time) = 0;

  // What all backends have in common.

  /// Of the buffers and arenas made with this device; see MemoryCaps.
  [[nodiscard]] MemoryAccount& account(Space space) noexcept {
    return space == Space::kDevice ? device_account_ : pinned_account_;
  }
  /// A signal that nobody uses, for on_done. Allocates only where none was given back.
  [[nodiscard]] DoneSignalRef take_signal() { return signals_->take(); }

 private:
  MemoryAccount device_account_;
  MemoryAccount pinned_account_;
  const std::shared_ptr<Pool<DoneSignal>> signals_ = std::make_shared<Pool<DoneSignal>>();
};

}  // namespace leat::gpu
