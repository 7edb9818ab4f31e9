// Streams: a thread for each, which runs a queue.
#include <algorithm>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

constexpr std::size_t kQueue = 1024;  // about what a GPU's launch queue holds

void check_uses(const Operation& operation) {
  for (const AllocationRef& memory : operation.uses) {
    if (memory->phase == Allocation::Phase::kPending) {
      die("an operation uses memory of a cudaMallocAsync that comes before it in no stream's "
          "order");
    }
    if (memory->phase == Allocation::Phase::kFreed) die("an operation uses memory that was freed");
  }
}

// Runs the first of the queue, which stays there meanwhile: the stream is not done.
void run_first(Lock& lock, Stream& stream) {
  State& all = state();
  Device& device = *stream.device;
  Operation& operation = stream.queue.front();  // a deque's elements stay where they are
  all.progress.wait(lock, [&] { return std::ranges::all_of(operation.after, &Mark::done); });
  if (all.delay.count() > 0) {
    const auto delay = all.delay;
    lock.unlock();
    std::this_thread::sleep_for(delay);
    lock.lock();
  }
  if (device.fails_in > 0 && --device.fails_in == 0) device.failed = device.fails_with;
  const bool runs = device.failed == cudaSuccess;
  if (runs) {
    check_uses(operation);
    if (operation.run) operation.run(lock);
  }
  for (const AllocationRef& memory : operation.uses) --memory->queued_uses;
  if (!runs && operation.keeps != nullptr) all.never_ran.push_back(operation.keeps);
  stream.queue.pop_front();
  ++stream.ran;
  all.progress.notify_all();
}

void run_stream(const StreamRef& stream) {
  const support::Counting counting(false);
  State& all = state();
  Lock lock(all.mutex);
  for (;;) {
    stream->filled.wait(lock, [&] { return stream->destroyed || !stream->queue.empty(); });
    if (stream->queue.empty()) break;
    run_first(lock, *stream);
  }
  --all.threads;
  all.progress.notify_all();
}

// The streams that the legacy stream waits for, or it where this is one of those.
std::vector<Mark> implicit_waits(const Stream& stream) {
  std::vector<Mark> marks;
  const Device& device = *stream.device;
  if (stream.legacy) {
    for (const auto& [handle, other] : state().streams) {
      if (other->blocking && other->device == &device) marks.push_back(end_of(other));
    }
  } else if (stream.blocking && device.legacy != nullptr) {
    marks.push_back(end_of(device.legacy));
  }
  std::erase_if(marks, &Mark::done);
  return marks;
}

cudaError_t create(const char* name, cudaStream_t* handle, unsigned flags) {
  return api(name, Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (handle == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
      return cudaErrorInvalidValue;
    }
    *handle = state().new_handle<cudaStream_t>();
    const StreamRef stream =
        start_stream(lock, *this_thread(lock).context, flags == cudaStreamDefault, false);
    stream->handle = *handle;
    state().streams[*handle] = stream;
    return cudaSuccess;
  });
}

}  // namespace

bool Mark::done() const { return stream->ran >= number; }

StreamRef start_stream(Lock& /*lock*/, Device& device, bool blocking, bool legacy) {
  auto stream = std::make_shared<Stream>();
  stream->device = &device;
  stream->blocking = blocking;
  stream->legacy = legacy;
  ++state().threads;
  std::thread([stream] { run_stream(stream); }).detach();  // reset() waits for it
  return stream;
}

StreamRef find_stream(Lock& lock, cudaStream_t handle) {
  if (handle == cudaStreamPerThread) die("cudaStreamPerThread is not modelled");
  if (handle == nullptr || handle == cudaStreamLegacy) {
    Device& device = *this_thread(lock).context;
    if (device.legacy == nullptr) device.legacy = start_stream(lock, device, false, true);
    return device.legacy;
  }
  const auto found = state().streams.find(handle);
  if (found == state().streams.end()) die("a call with a stream that is none, or was destroyed");
  return found->second;
}

Mark end_of(const StreamRef& stream) { return {.stream = stream, .number = stream->enqueued}; }

void wait_for(Lock& lock, const Mark& mark) {
  state().progress.wait(lock, [&] { return mark.done(); });
}

void wait_for_device(Lock& lock, const Device* device) {
  std::vector<Mark> marks;
  for (const auto& one : state().devices) {
    if (one->legacy != nullptr) marks.push_back(end_of(one->legacy));
  }
  for (const auto& [handle, stream] : state().streams) marks.push_back(end_of(stream));
  for (const StreamRef& stream : state().draining) marks.push_back(end_of(stream));
  for (const Mark& mark : marks) {
    if (device == nullptr || mark.stream->device == device) wait_for(lock, mark);
  }
}

cudaError_t enqueue(Lock& lock, const StreamRef& stream, Operation operation) {
  if (stream->device->failed != cudaSuccess) return stream->device->failed;
  if (const cudaError_t code = check_capture(lock, *stream); code != cudaSuccess) return code;
  if (stream->capture != nullptr) {
    Capture& capture = *stream->capture;
    ++capture.streams[stream][stream.get()];
    capture.graph.nodes.push_back(std::move(operation));
    return cudaSuccess;
  }
  for (const AllocationRef& memory : operation.uses) {
    if (memory->free_enqueued) die("an operation is given memory that was given to cudaFreeAsync");
    ++memory->queued_uses;
  }
  state().progress.wait(lock, [&] { return stream->queue.size() < kQueue; });
  if (stream->destroyed) die("a stream is destroyed while an operation is given to it");
  for (Mark& mark : implicit_waits(*stream)) operation.after.push_back(std::move(mark));
  stream->queue.push_back(std::move(operation));
  ++stream->enqueued;
  stream->filled.notify_all();
  return cudaSuccess;
}

}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create("cudaStreamCreate", stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create("cudaStreamCreateWithFlags", stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api("cudaStreamDestroy", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, handle);
    if (stream->legacy) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t code = check_not_captured(lock, *stream); code != cudaSuccess)
      return code;
    stream->destroyed = true;
    stream->filled.notify_all();
    state().streams.erase(handle);
    std::erase_if(state().draining, [](const StreamRef& one) { return one->queue.empty(); });
    if (!stream->queue.empty()) state().draining.push_back(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api("cudaStreamSynchronize", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, handle);
    if (const cudaError_t code = check_not_captured(lock, *stream); code != cudaSuccess)
      return code;
    if (const cudaError_t code = check_safe(lock); code != cudaSuccess) return code;
    const Mark end = end_of(stream);
    if (stream->legacy) {
      for (const Mark& mark : implicit_waits(*stream)) wait_for(lock, mark);
    }
    wait_for(lock, end);
    return stream->device->failed;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api("cudaStreamQuery", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, handle);
    if (const cudaError_t code = check_not_captured(lock, *stream); code != cudaSuccess)
      return code;
    if (const cudaError_t code = check_safe(lock); code != cudaSuccess) return code;
    if (stream->device->failed != cudaSuccess) return stream->device->failed;
    const bool done = end_of(stream).done() && (!stream->legacy || implicit_waits(*stream).empty());
    return done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api("cudaDeviceSynchronize", Needs::kSafeToCapture, [](Lock& lock) -> cudaError_t {
    Device& device = *this_thread(lock).context;
    for (const auto& [handle, stream] : state().streams) {
      if (stream->device != &device) continue;
      const cudaError_t code = check_not_captured(lock, *stream);
      if (code != cudaSuccess) return code;
    }
    wait_for_device(lock, &device);
    return device.failed;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return api("cudaLaunchHostFunc", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (function == nullptr) return cudaErrorInvalidValue;
    const auto call = [function, argument](Lock& held) {
      this_thread(held).in_host_function = true;
      held.unlock();
      {
        const leat::support::Counting counting(true);
        function(argument);
      }
      held.lock();
      this_thread(held).in_host_function = false;
    };
    return enqueue(lock, find_stream(lock, handle), {.run = call, .keeps = argument});
  });
}

}  // extern "C"
