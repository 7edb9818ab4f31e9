// Events: which record a call is about.
#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

std::shared_ptr<Event> find_event(Lock& /*lock*/, cudaEvent_t handle) {
  const auto found = state().events.find(handle);
  if (found == state().events.end()) die("a call with an event that is none, or was destroyed");
  return found->second;
}

cudaError_t create(const char* name, cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
  return api(name, Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (handle == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    auto event = std::make_shared<Event>();
    event->device = this_thread(lock).context;
    event->timed = (flags & cudaEventDisableTiming) == 0;
    event->blocking_sync = (flags & cudaEventBlockingSync) != 0;
    *handle = state().new_handle<cudaEvent_t>();
    state().events[*handle] = std::move(event);
    return cudaSuccess;
  });
}

// Whether the host may ask about an event's latest record, or wait for it.
cudaError_t check_ask(Lock& lock, const Event& event) {
  if (const cudaError_t code = check_not_captured(lock, event); code != cudaSuccess) return code;
  if (const cudaError_t code = check_safe(lock); code != cudaSuccess) return code;
  return event.device->failed;
}

}  // namespace
}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return api("cudaEventDestroy", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    static_cast<void>(find_event(lock, handle));
    state().events.erase(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  return api("cudaEventRecord", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const auto event = find_event(lock, handle);
    const StreamRef stream = find_stream(lock, on);
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      const cudaError_t code = check_capture(lock, *stream);
      if (code == cudaSuccess) capture_record(lock, stream, *event);
      return code;
    }
    const auto record = std::make_shared<Record>();
    const auto take_time = [record](Lock&) { record->time = std::chrono::steady_clock::now(); };
    const cudaError_t code = enqueue(lock, stream, {.run = take_time});
    if (code != cudaSuccess) return code;
    record->mark = end_of(stream);
    event->latest = record;
    event->captured = nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t waiting, cudaEvent_t handle, unsigned flags) {
  return api("cudaStreamWaitEvent", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    const auto event = find_event(lock, handle);
    const StreamRef stream = find_stream(lock, waiting);
    if (stream->capture != nullptr || event->captured != nullptr) {
      return capture_wait(lock, stream, *event);
    }
    if (event->device->failed != cudaSuccess) return event->device->failed;
    if (event->latest == nullptr) return cudaSuccess;
    if (state().recording_waits) {
      state().waits.push_back({stream->handle, event->latest->mark.stream->handle});
    }
    return enqueue(lock, stream, {.after = {event->latest->mark}});
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return api("cudaEventQuery", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const auto event = find_event(lock, handle);
    if (const cudaError_t code = check_ask(lock, *event); code != cudaSuccess) return code;
    const bool done = event->latest == nullptr || event->latest->mark.done();
    return done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return api("cudaEventSynchronize", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const auto event = find_event(lock, handle);
    if (const cudaError_t code = check_ask(lock, *event); code != cudaSuccess) return code;
    if (const auto record = event->latest) wait_for(lock, record->mark);
    return event->device->failed;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api("cudaEventElapsedTime", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    const auto from = find_event(lock, start);
    const auto to = find_event(lock, end);
    for (const Event* event : {from.get(), to.get()}) {
      if (event->captured != nullptr) return cudaErrorCapturedEvent;
      if (!event->timed || event->latest == nullptr) return cudaErrorInvalidResourceHandle;
    }
    if (from->device != to->device) return cudaErrorInvalidResourceHandle;
    if (from->device->failed != cudaSuccess) return from->device->failed;
    if (!from->latest->mark.done() || !to->latest->mark.done()) return cudaErrorNotReady;
    *milliseconds =
        std::chrono::duration<float, std::milli>(to->latest->time - from->latest->time).count();
    return cudaSuccess;
  });
}

}  // extern "C"
