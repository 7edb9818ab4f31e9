// One CUDA device behind the seam. What is common to all calls (whose context, whose errors) is in
// context.h, records of events are in event_pool.h, waking fibers is in event_poller.h.

#include "leat/gpu/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "leat/csp/assert.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber.h"
#include "leat/csp/scheduler_core.h"
#include "leat/gpu/cuda/context.h"
#include "leat/gpu/cuda/event_poller.h"
#include "leat/gpu/cuda/event_pool.h"
#include "leat/gpu/cuda/host_call.h"
#include "leat/gpu/error.h"

namespace leat::gpu::cuda {
namespace {

const Capabilities kCapabilities = {.host_kernels = false,
                                    .device_memory_is_host_memory = false,
                                    .cuda_kernels = true,
                                    .virtual_time = false};

// To CUDA a null stream is the legacy default stream: it must not get there by accident.
cudaStream_t stream_of(StreamHandle handle) noexcept {
  LEAT_ASSERT(handle != StreamHandle::kNone, "a call with a stream that was moved from");
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(handle));
}

StreamHandle handle_of(cudaStream_t stream) noexcept {
  return static_cast<StreamHandle>(reinterpret_cast<std::uintptr_t>(stream));
}

CudaEvent& event_of(EventHandle handle) noexcept {
  LEAT_ASSERT(handle != EventHandle::kNone, "a call with an event that was moved from");
  return *reinterpret_cast<CudaEvent*>(static_cast<std::uintptr_t>(handle));
}

cudaMemcpyKind kind_of(CopyDirection direction) noexcept {
  switch (direction) {
    case CopyDirection::kHostToDevice: return cudaMemcpyHostToDevice;
    case CopyDirection::kDeviceToHost: return cudaMemcpyDeviceToHost;
    case CopyDirection::kDeviceToDevice: return cudaMemcpyDeviceToDevice;
  }
  LEAT_ASSERT(false, "an unknown copy direction");
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(int number, DeviceInfo info)
      : info_(std::move(info)),
        context_(number, info_.name),
        failure_(std::make_shared<Failure>(info_.name)),
        events_(context_),
        poller_(context_) {}

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return kCapabilities; }
  [[nodiscard]] const char* family() const noexcept override { return "cuda"; }

  StreamHandle create_stream() override {
    failure_->rethrow();
    cudaStream_t stream = nullptr;
    context_.call("cudaStreamCreateWithFlags",
                  [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
    return handle_of(stream);
  }

  // CUDA returns at once and lets go of the stream when its queued work has run.
  void destroy_stream(StreamHandle handle) noexcept override {
    quietly([&] { return cudaStreamDestroy(stream_of(handle)); });
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
    if (stream == cudaStreamLegacy) return handle_of(stream);  // of the context it is used in: ours
    if (const int number = context_.device_of(stream); number != context_.number()) {
      throw refusal("the stream is one of cuda:" + std::to_string(number), "wrap_stream",
                    "open that device for it");
    }
    return handle_of(stream);
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
    return static_cast<EventHandle>(
        reinterpret_cast<std::uintptr_t>(std::make_unique<CudaEvent>(events_, timed).release()));
  }
  // Its cudaEvent_t goes back to the pool, now or when nobody waits for it any more. Streams that
  // were told to wait for it have taken note of the record and do not need it.
  void destroy_event(EventHandle handle) noexcept override {
    const std::unique_ptr<CudaEvent> event(&event_of(handle));
  }
  void record(EventHandle handle, StreamHandle stream) override {
    failure_->rethrow();
    event_of(handle).record([&](cudaEvent_t event) {
      context_.call("cudaEventRecord", [&] { return cudaEventRecord(event, stream_of(stream)); });
    });
  }
  void wait(StreamHandle stream, EventHandle handle) override {
    failure_->rethrow();
    const RecordRef record = event_of(handle).latest();  // perhaps another device's
    if (!record) return;
    context_.call("cudaStreamWaitEvent",
                  [&] { return cudaStreamWaitEvent(stream_of(stream), record->event, 0); });
  }
  void sync(EventHandle handle) override {
    if (const RecordRef record = event_of(handle).latest()) sync(*record);
    failure_->rethrow();
  }
  [[nodiscard]] bool is_done(EventHandle handle) override {
    const RecordRef record = event_of(handle).latest();
    const bool done = !record || is_done(*record);
    if (done) failure_->rethrow();
    return done;
  }
  void await(EventHandle handle) override {
    const Fiber* const fiber = Fiber::current();
    if (fiber != nullptr && fiber->core().clock().is_virtual()) {
      throw std::logic_error("leat: await on " + info_.name +
                             ": a GPU takes real time and cannot serve a VirtualClock; use a host "
                             "device with it");
    }
    const RecordRef record = event_of(handle).latest();
    if (record && !is_done(*record)) {
      fiber != nullptr ? poller_.await(record) : sync(*record);
    }
    failure_->rethrow();
  }
  [[nodiscard]] Duration elapsed(EventHandle start, EventHandle end) override {
    const RecordRef from = event_of(start).latest();
    const RecordRef to = event_of(end).latest();
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
  // cudaFree and cudaFreeHost wait for all that is queued on the device before memory changes
  // hands, so that work which is queued still finds it. Who frees must not be who holds a stream
  // up.
  void free_device(void* memory) noexcept override {
    quietly([&] { return cudaFree(memory); });
  }
  void* allocate_pinned(std::size_t bytes) override {
    failure_->rethrow();
    void* memory = nullptr;
    context_.call(
        "cudaHostAlloc", [&] { return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable); },
        bytes);
    return memory;
  }
  void free_pinned(void* memory) noexcept override {
    quietly([&] { return cudaFreeHost(memory); });
  }

  void copy_async(StreamHandle handle, void* to, const void* from, std::size_t bytes,
                  CopyDirection direction) override {
    failure_->rethrow();
    const cudaStream_t stream = stream_of(handle);
    if (stream == cudaStreamLegacy) {
      throw refusal("the legacy default stream waits for all others, and they for it", "copy_async",
                    "copy on a leat::gpu::Stream, and let the legacy stream wait for an event");
    }
    if (bytes == 0) return;
    context_.call(
        "cudaMemcpyAsync",
        [&] { return cudaMemcpyAsync(to, from, bytes, kind_of(direction), stream); }, bytes);
  }

  // The function, and what it has captured, ends on the driver's thread, where CUDA must not be
  // called: it may own no stream, event or buffer.
  void launch_host(StreamHandle stream, UniqueFunction<void()> function,
                   Duration /*modelled_time*/) override {
    failure_->rethrow();
    auto call = std::make_unique<HostCall>(std::move(function), failure_);
    context_.call("cudaLaunchHostFunc", [&] {
      return cudaLaunchHostFunc(stream_of(stream), &HostCall::run, call.get());
    });
    static_cast<void>(call.release());  // run() frees it, and may have done so already
  }

 private:
  [[nodiscard]] bool is_done(const Record& record) const {
    return context_.query("cudaEventQuery", [&] { return cudaEventQuery(record.event); });
  }
  void sync(const Record& record) const {
    context_.call("cudaEventSynchronize", [&] { return cudaEventSynchronize(record.event); });
  }

  // For what must not fail. After a device was lost, and at the end of the process when CUDA has
  // gone before its handles, there is nothing left to let go of.
  template <class F>
  void quietly(F&& function) const noexcept {
    static_cast<void>(context_.attempt(function));
  }

  /// An error of Leat's own, not of CUDA's.
  [[nodiscard]] GpuError refusal(std::string name, const char* call, const char* advice) const {
    return {0, std::move(name), call, info_.name, advice};
  }

  const DeviceInfo info_;
  const Context context_;
  const std::shared_ptr<Failure> failure_;
  EventPool events_;
  EventPoller poller_;  // goes first: it lets go of records
};

}  // namespace

std::shared_ptr<Backend> open(int number) {
  Inventory all = inventory();
  const std::string name = "cuda:" + std::to_string(number);
  if (all.devices.empty()) {
    throw Error("leat: cannot open " + name + ": " + all.status + "; or open \"host\"");
  }
  if (number < 0 || static_cast<std::size_t>(number) >= all.devices.size()) {
    throw Error(
        "leat: cannot open " + name + ": this machine has " + all.status + "; open cuda:0" +
        (all.devices.size() > 1 ? " to cuda:" + std::to_string(all.devices.size() - 1) : "") +
        " or \"host\"");
  }
  return std::make_shared<CudaBackend>(number,
                                       std::move(all.devices[static_cast<std::size_t>(number)]));
}

}  // namespace leat::gpu::cuda
