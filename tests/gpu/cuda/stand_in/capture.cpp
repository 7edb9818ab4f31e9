// Stream capture: operations that become a graph, and the calls that must not be made meanwhile.
#include <algorithm>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

void merge(Capture::Clock& into, const Capture::Clock& other) {
  for (const auto& [stream, number] : other) into[stream] = std::max(into[stream], number);
}

cudaError_t invalidate(Capture& capture, cudaError_t code) {
  capture.invalidated = true;
  return code;
}

// To use the legacy stream is to wait for the blocking ones, of which none may be in a capture.
std::vector<Capture*> implicitly_used(const Stream& stream) {
  std::vector<Capture*> used;
  if (!stream.legacy) return used;
  for (const auto& [handle, other] : state().streams) {
    if (other->blocking && other->device == stream.device && other->capture != nullptr) {
      used.push_back(other->capture.get());
    }
  }
  return used;
}

// Whether all that was captured on other streams is followed by something on the first.
bool joined(const Capture& capture) {
  const Capture::Clock& seen = capture.streams.at(capture.origin);
  return std::ranges::all_of(capture.streams, [&](const auto& one) {
    const auto end = one.second.find(one.first.get());
    if (end == one.second.end()) return true;
    const auto known = seen.find(one.first.get());
    return known != seen.end() && known->second >= end->second;
  });
}

}  // namespace

cudaError_t check_safe(Lock& lock) {
  const cudaStreamCaptureMode mode = this_thread(lock).mode;
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t code = cudaSuccess;
  for (const auto& capture : state().captures) {
    const bool own = capture->mode != cudaStreamCaptureModeRelaxed &&
                     capture->thread == std::this_thread::get_id();
    const bool everybodys =
        capture->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
    if (own || everybodys) code = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return code;
}

cudaError_t check_capture(Lock& /*lock*/, const Stream& stream) {
  cudaError_t code = cudaSuccess;
  for (Capture* const used : implicitly_used(stream)) {
    code = invalidate(*used, cudaErrorStreamCaptureImplicit);
  }
  if (code != cudaSuccess || stream.capture == nullptr) return code;
  return stream.capture->invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t check_not_captured(Lock& lock, const Stream& stream) {
  if (const cudaError_t code = check_capture(lock, stream); code != cudaSuccess) return code;
  if (stream.capture == nullptr) return cudaSuccess;
  return invalidate(*stream.capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t check_not_captured(Lock& /*lock*/, const Event& event) {
  if (event.captured == nullptr) return cudaSuccess;
  return invalidate(*event.captured, cudaErrorCapturedEvent);
}

void capture_record(Lock& /*lock*/, const StreamRef& stream, Event& event) {
  event.latest = nullptr;
  event.captured = stream->capture;
  event.clock = stream->capture->streams[stream];
}

cudaError_t capture_wait(Lock& lock, const StreamRef& stream, const Event& event) {
  if (const cudaError_t code = check_capture(lock, *stream); code != cudaSuccess) return code;
  if (stream->capture == nullptr) {
    if (event.captured->ended || event.captured->invalidated) return cudaErrorCapturedEvent;
    if (stream->legacy) return invalidate(*event.captured, cudaErrorStreamCaptureImplicit);
    stream->capture = event.captured;  // from now on it takes part
  } else if (event.captured == nullptr || event.captured->ended) {
    return invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  } else if (event.captured != stream->capture) {
    event.captured->invalidated = true;
    return invalidate(*stream->capture, cudaErrorStreamCaptureMerge);
  }
  merge(stream->capture->streams[stream], event.clock);
  return cudaSuccess;
}

}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api("cudaThreadExchangeStreamCaptureMode", Needs::kDriver, [&](Lock& lock) -> cudaError_t {
    if (mode == nullptr || *mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    std::swap(*mode, this_thread(lock).mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return api("cudaStreamBeginCapture", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    const StreamRef stream = find_stream(lock, handle);
    if (stream->legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorInvalidValue;
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->streams[stream];
    stream->capture = capture;
    state().captures.push_back(std::move(capture));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api("cudaStreamEndCapture", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    const StreamRef stream = find_stream(lock, handle);
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != stream) {
      return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    cudaError_t code = cudaSuccess;
    if (capture->invalidated) {
      code = cudaErrorStreamCaptureInvalidated;
    } else if (!joined(*capture)) {
      code = cudaErrorStreamCaptureUnjoined;
    }
    capture->ended = true;
    for (const auto& [one, clock] : capture->streams) one->capture = nullptr;
    capture->streams.clear();
    capture->origin = nullptr;
    std::erase(state().captures, capture);
    if (code != cudaSuccess) return code;
    *graph = state().new_handle<cudaGraph_t>();
    state().graphs[*graph] = std::make_unique<Graph>(std::move(capture->graph));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api("cudaStreamIsCapturing", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (status == nullptr) return cudaErrorInvalidValue;
    const StreamRef stream = find_stream(lock, handle);
    if (!implicitly_used(*stream).empty()) return cudaErrorStreamCaptureImplicit;
    *status = cudaStreamCaptureStatusNone;
    if (stream->capture != nullptr) {
      *status = stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                             : cudaStreamCaptureStatusActive;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return api("cudaGraphGetNodes", Needs::kContext, [&](Lock&) -> cudaError_t {
    const auto found = state().graphs.find(handle);
    if (found == state().graphs.end() || count == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) die("cudaGraphGetNodes: only the number of nodes is modelled");
    *count = found->second->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api("cudaGraphDestroy", Needs::kContext, [&](Lock&) -> cudaError_t {
    return state().graphs.erase(graph) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
