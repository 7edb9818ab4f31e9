// The Backend of one CUDA device.
//
// context.h                 contexts and errors, for all calls
// event.h, event_record.h   the records of events
// event_poller.h            wakes fibers

#include "leat/gpu/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/error.h"
#include "leat/csp/wait/identity.h"
#include "leat/gpu/cuda/context.h"
#include "leat/gpu/cuda/copier.h"
#include "leat/gpu/cuda/event.h"
#include "leat/gpu/cuda/event_poller.h"
#include "leat/gpu/cuda/event_record.h"
#include "leat/gpu/cuda/host_function.h"
#include "leat/gpu/cuda/stream_registry.h"
#include "leat/gpu/error.h"

namespace leat::gpu::cuda {
namespace {

// CUDA takes a null stream for the legacy default stream, so null must not get there by accident.
cudaStream_t stream_of(StreamHandle handle) noexcept {
  LEAT_ASSERT(handle != StreamHandle::kNone, "a call with a stream that was moved from");
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(handle));
}

StreamHandle handle_of(cudaStream_t stream) noexcept {
  return static_cast<StreamHandle>(reinterpret_cast<std::uintptr_t>(stream));
}

void* word_of(EventHandle handle) noexcept {
  LEAT_ASSERT(handle != EventHandle::kNone, "a call with an event that was moved from");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle));
}

CudaEvent& event_of(EventHandle handle) noexcept { return Pool<CudaEvent>::value(word_of(handle)); }

class CudaBackend final : public Backend {
 public:
  CudaBackend(int number, DeviceInfo info)
      : info_(std::move(info)),
        context_(number, info_.name),
        failure_(std::make_shared<Failure>(info_.name)),
        records_(context_),
        streams_(context_),
        poller_(context_, *failure_),
        copier_(context_),
        memory_pools_(has_memory_pools(number)) {
    capabilities_.cuda_kernels = true;
    capabilities_.foreign_streams = true;
    capabilities_.stream_ordered_memory = memory_pools_;
    capabilities_.batched_copies = copier_.batches();
  }

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] const char* family() const noexcept override { return "cuda"; }
  void call_current(void (*function)(void*), void* argument) override {
    context_.call("cuCtxSetCurrent", [&] {
      function(argument);
      return cudaSuccess;
    });
  }
  [[nodiscard]] const SchedulerCore* scheduler() const noexcept override { return nullptr; }

  StreamHandle create_stream() override {
    failure_->rethrow();
    return handle_of(streams_.create());
  }
  void destroy_stream(StreamHandle handle) noexcept override {
    streams_.destroy(stream_of(handle));
  }

  StreamHandle wrap_stream(void* native) override {
    auto* const stream = static_cast<cudaStream_t>(native);
    if (stream == nullptr) {
      throw refusal("the null stream means another one in each compilation (--default-stream)",
                    "wrap_stream", "pass cudaStreamLegacy if the legacy default stream is meant");
    }
    if (stream == cudaStreamPerThread) {
      throw refusal("cudaStreamPerThread names another stream on every thread", "wrap_stream",
                    "pass a stream of your own, or cudaStreamLegacy");
    }
    if (stream == cudaStreamLegacy) return legacy_stream();
    if (const int number = context_.device_of(stream); number != context_.number()) {
      throw refusal("the stream is one of cuda:" + std::to_string(number), "wrap_stream",
                    "open that device for it");
    }
    if (is_capturing(handle_of(stream))) {
      throw refusal("the stream is being captured into a graph", "wrap_stream",
                    "wrap it before the capture begins, or once it has ended");
    }
    return handle_of(stream);
  }
  // CUDA resolves this constant in the current context, which is the primary context then.
  StreamHandle legacy_stream() override { return handle_of(cudaStreamLegacy); }
  [[nodiscard]] bool is_capturing(StreamHandle handle) override {
    const cudaStream_t stream = stream_of(handle);
    if (stream == cudaStreamLegacy)
      return false;  // it cannot be captured, and the query fails during a capture
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    context_.call("cudaStreamIsCapturing", [&] { return cudaStreamIsCapturing(stream, &status); });
    return status != cudaStreamCaptureStatusNone;
  }

  [[nodiscard]] void* native_handle(StreamHandle handle) const noexcept override {
    return stream_of(handle);
  }

  void sync(StreamHandle handle) override {
    context_.call("cudaStreamSynchronize",
                  [&] { return cudaStreamSynchronize(stream_of(handle)); });
    failure_->rethrow();
  }
  [[nodiscard]] bool is_done(StreamHandle handle) override {
    const bool done =
        context_.query("cudaStreamQuery", [&] { return cudaStreamQuery(stream_of(handle)); });
    if (done) failure_->rethrow();
    return done;
  }

  EventHandle create_event(bool timed) override {
    failure_->rethrow();
    Pool<CudaEvent>::Ref event = events_->take();
    event->prepare(records_, timed);
    return static_cast<EventHandle>(reinterpret_cast<std::uintptr_t>(event.release()));
  }
  // The cudaEvent_t goes back to the pool, now or when no fiber waits for it any more. Streams that
  // wait for it do not need it: cudaStreamWaitEvent has noted the record.
  void destroy_event(EventHandle handle) noexcept override {
    static_cast<void>(Pool<CudaEvent>::Ref::adopt(word_of(handle)));
  }
  void record(EventHandle handle, StreamHandle stream) override {
    failure_->rethrow();
    event_of(handle).record([&](cudaEvent_t event) {
      context_.enqueue("cudaEventRecord",
                       [&] { return cudaEventRecord(event, stream_of(stream)); });
    });
  }
  void wait(StreamHandle stream, EventHandle handle) override {
    failure_->rethrow();
    const EventRecordRef record = event_of(handle).latest();  // may belong to another device
    if (!record) return;
    context_.enqueue("cudaStreamWaitEvent",
                     [&] { return cudaStreamWaitEvent(stream_of(stream), record->event, 0); });
  }
  void sync(EventHandle handle) override {
    if (const EventRecordRef record = event_of(handle).latest()) sync(*record);
    failure_->rethrow();
  }
  [[nodiscard]] bool is_done(EventHandle handle) override {
    const EventRecordRef record = event_of(handle).latest();
    const bool done = !record || is_done(*record);
    if (done) failure_->rethrow();
    return done;
  }
  void await(EventHandle handle) override {
    const SchedulerCore* const caller = calling_scheduler();
    refuse_virtual_time(caller, "await");
    const EventRecordRef record = event_of(handle).latest();
    if (record && !is_done(*record)) {
      caller != nullptr ? poller_.await(record) : sync(*record);
    }
    failure_->rethrow();
  }
  void subscribe(EventHandle handle, const DoneSignalRef& signal) override {
    refuse_virtual_time(calling_scheduler(), "on_done");
    EventRecordRef record = event_of(handle).latest();
    try {
      const bool done = !record || is_done(*record);
      failure_->rethrow();
      if (done) {
        signal->notify(nullptr);
        return;
      }
    } catch (...) {
      signal->notify(std::current_exception());
      return;
    }
    poller_.subscribe(record, signal);
    signal->record = record.release();
  }
  void unsubscribe(DoneSignal& signal) noexcept override {
    if (signal.record != nullptr) poller_.unsubscribe(signal);
  }
  [[nodiscard]] Duration elapsed(EventHandle start, EventHandle end) override {
    const EventRecordRef from = event_of(start).latest();
    const EventRecordRef to = event_of(end).latest();
    if (!from || !to || !from->timed || !to->timed) {
      throw refusal("both events must be timed, recorded and done", "elapsed",
                    "make them with Timing::kOn and await the later one");
    }
    float milliseconds = 0;
    context_.call("cudaEventElapsedTime",
                  [&] { return cudaEventElapsedTime(&milliseconds, from->event, to->event); });
    return Duration(std::llround(static_cast<double>(milliseconds) * 1e6));
  }

  void* allocate_device(std::size_t bytes) override {
    failure_->rethrow();
    void* memory = nullptr;
    context_.call(
        "cudaMalloc", [&] { return cudaMalloc(&memory, bytes); }, bytes);
    return memory;
  }
  // Waits for the work of Leat's streams, which may use the memory; if that is not possible, the
  // memory is not freed. For other streams, cudaFree and cudaFreeHost are known to wait, though
  // CUDA does not document it.
  [[nodiscard]] bool free_device(void* memory) noexcept override {
    return streams_.sync_all() && succeeds([&] { return cudaFree(memory); });
  }
  void* allocate_device(std::size_t bytes, StreamHandle handle) override {
    if (!memory_pools_) return allocate_device(bytes);
    failure_->rethrow();
    if (is_capturing(handle)) {
      throw refusal("the stream is being captured into a graph", "cudaMallocAsync",
                    "allocate before the capture begins, or without a stream");
    }
    void* memory = nullptr;
    context_.call(
        "cudaMallocAsync", [&] { return cudaMallocAsync(&memory, bytes, stream_of(handle)); },
        bytes);
    streams_.retain(stream_of(handle));
    return memory;
  }
  [[nodiscard]] bool free_device(void* memory, StreamHandle handle) noexcept override {
    if (!memory_pools_) return free_device(memory);
    // In a capture CUDA refuses to free memory that no graph has allocated, and invalidates the
    // capture.
    const bool gone = !streams_.is_captured(stream_of(handle)) &&
                      succeeds([&] { return cudaFreeAsync(memory, stream_of(handle)); });
    streams_.release(stream_of(handle));
    return gone;
  }

  void* allocate_pinned(std::size_t bytes, PinnedUse use) override {
    failure_->rethrow();
    const unsigned flags = use == PinnedUse::kWriteCombined
                               ? cudaHostAllocPortable | cudaHostAllocWriteCombined
                               : cudaHostAllocPortable;
    void* memory = nullptr;
    context_.call(
        "cudaHostAlloc", [&] { return cudaHostAlloc(&memory, bytes, flags); }, bytes);
    return memory;
  }
  [[nodiscard]] bool free_pinned(void* memory) noexcept override {
    return streams_.sync_all() && succeeds([&] { return cudaFreeHost(memory); });
  }

  void pin_pages(PageMapping& pages) override {
    failure_->rethrow();
    std::size_t pinned = 0;
    try {
      while (pinned < pages.size()) {
        std::byte* const begin = pages.data() + pinned;
        const std::size_t step = within_step(begin, pages.size() - pinned);
        context_.call(
            "cudaHostRegister",
            [&] { return cudaHostRegister(begin, step, cudaHostRegisterPortable); }, step);
        pinned += step;
      }
    } catch (...) {
      if (!unregister(pages.data(), pinned)) pages.abandon();
      throw;
    }
  }
  [[nodiscard]] bool free_pages(PageMapping pages, bool are_pinned) noexcept override {
    bool gone = streams_.sync_all();
    if (are_pinned) gone = gone && unregister(pages.data(), pages.size());
    if (!gone) pages.abandon();  // the device may still reach them: the kernel must not reuse them
    return gone;
  }

  void copy_async(StreamHandle handle, void* to, const void* from, std::size_t bytes,
                  CopyDirection direction) override {
    failure_->rethrow();
    copier_.copy(copying_stream(handle), {to, from, bytes}, direction);
  }
  void copy_batch_async(StreamHandle handle, std::span<const CopyRange> copies,
                        CopyDirection direction) override {
    failure_->rethrow();
    copier_.copy_batch(copying_stream(handle), copies, direction);
  }

  // The function and its captures are destroyed on the driver's thread, where CUDA must not be
  // called: they may not hold the last reference to a stream, an event, memory or this device.
  void launch_host(StreamHandle stream, UniqueFunction<void()> function,
                   Duration /*modelled_time*/) override {
    failure_->rethrow();
    if (is_capturing(stream)) {
      throw refusal(
          "a graph would call the function as often as it is launched, which is called once",
          "launch_host", "enqueue it before the capture begins, or once it has ended");
    }
    Pool<HostFunction>::Ref call = functions_->take();
    call->prepare(std::move(function), failure_);
    Pool<HostFunction>::Ref driver = call;  // HostFunction::run() releases it, and may have done so
    void* const word = driver.release();
    try {
      context_.enqueue("cudaLaunchHostFunc", [&] {
        return cudaLaunchHostFunc(stream_of(stream), &HostFunction::run, word);
      });
    } catch (...) {
      static_cast<void>(Pool<HostFunction>::Ref::adopt(word));
      throw;
    }
  }

 private:
  [[nodiscard]] bool is_done(const EventRecord& record) const {
    return context_.query("cudaEventQuery", [&] { return cudaEventQuery(record.event); });
  }
  void sync(const EventRecord& record) const {
    context_.call("cudaEventSynchronize", [&] { return cudaEventSynchronize(record.event); });
  }

  /// The stream of a copy. Throws for the legacy stream.
  [[nodiscard]] cudaStream_t copying_stream(StreamHandle handle) const {
    const cudaStream_t stream = stream_of(handle);
    if (stream == cudaStreamLegacy) {
      throw refusal("the legacy default stream waits for all others, and they for it", "copy_async",
                    "copy on a leat::gpu::Stream, and let the legacy stream wait for an event");
    }
    return stream;
  }

  /// Unregisters the steps of a range that pin_pages registered. False if a call failed.
  [[nodiscard]] bool unregister(void* memory, std::size_t bytes) const noexcept {
    bool all = true;
    for (std::size_t done = 0; done < bytes;) {
      std::byte* const begin = static_cast<std::byte*>(memory) + done;
      all &= context_.attempt([&] { return cudaHostUnregister(begin); }) == cudaSuccess;
      done += within_step(begin, bytes - done);
    }
    return all;
  }

  void refuse_virtual_time(const SchedulerCore* caller, const char* what) const {
    if (caller == nullptr || !clock_of(*caller).is_virtual()) return;
    throw std::logic_error("leat: " + std::string(what) + " on " + info_.name +
                           ": a GPU takes real time and cannot serve a VirtualClock; use a host "
                           "device with it");
  }

  /// Returns false if the query fails. Throws GpuError if the device cannot be entered.
  [[nodiscard]] bool has_memory_pools(int number) const {
    int has = 0;
    context_.call("cudaDeviceGetAttribute", [&] {
      const auto code = cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, number);
      if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
      return cudaSuccess;
    });
    return has != 0;
  }

  // For calls that must not throw. After a device was lost, and at the end of the process if CUDA
  // is gone already, nothing is left to free.
  template <class F>
  [[nodiscard]] bool succeeds(F&& function) const noexcept {
    return context_.attempt(function) == cudaSuccess;
  }

  /// Makes an error of Leat itself, without a CUDA error code.
  [[nodiscard]] GpuError refusal(std::string name, const char* call, const char* advice) const {
    return {0, std::move(name), call, info_.name, advice};
  }

  const DeviceInfo info_;
  const Context context_;
  const std::shared_ptr<Failure> failure_;
  EventRecordPool records_;
  StreamRegistry streams_;
  EventPoller poller_;  // destroyed before records_, to which it returns records
  Copier copier_;
  const bool memory_pools_;
  Capabilities capabilities_;
  const std::shared_ptr<Pool<CudaEvent>> events_ = std::make_shared<Pool<CudaEvent>>();
  const std::shared_ptr<Pool<HostFunction>> functions_ = std::make_shared<Pool<HostFunction>>();
};

}  // namespace

std::shared_ptr<Backend> open(int number) {
  return std::make_shared<CudaBackend>(number, find_device(number));
}

}  // namespace leat::gpu::cuda
