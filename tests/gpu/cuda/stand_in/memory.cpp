// Memory: what was allocated and registered, where, and until when.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tests/gpu/cuda/stand_in/state.h"

namespace leat::stand_in {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;  // which pinned memory begins at
constexpr std::size_t kPinnedMemory = std::size_t{4} << 30;
constexpr int kFresh = 0xCD;  // memory comes with what was in it before
constexpr int kGone = 0xDD;

std::byte* new_bytes(std::size_t bytes, std::size_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
  std::memset(memory, kFresh, bytes);
  return static_cast<std::byte*>(memory);
}

std::size_t pinned_bytes() {
  std::size_t sum = 0;
  for (const auto& [address, memory] : state().memory) {
    if (memory->kind == Allocation::Kind::kPinned) sum += memory->bytes;
  }
  return sum;
}

AllocationRef add(Lock& lock, Allocation::Kind kind, std::byte* begin, std::size_t bytes) {
  auto memory = std::make_shared<Allocation>(kind, this_thread(lock).context, begin, bytes);
  state().memory[begin] = memory;
  return memory;
}

cudaError_t allocate_on_device(Lock& lock, Device& device, std::size_t bytes, AllocationRef& made) {
  const std::size_t all = state().device_memory;
  if (bytes > all || device.used_bytes > all - bytes) return cudaErrorMemoryAllocation;
  std::byte* const begin = new_bytes(bytes, kAlignment);
  if (begin == nullptr) return cudaErrorMemoryAllocation;
  made = std::make_shared<Allocation>(Allocation::Kind::kDevice, &device, begin, bytes);
  static_cast<void>(lock);
  state().memory[begin] = made;
  device.used_bytes += bytes;
  return cudaSuccess;
}

// The allocation that begins there; null: none does.
AllocationRef find_begin(void* begin, Allocation::Kind kind) {
  const auto found = state().memory.find(static_cast<std::byte*>(begin));
  if (found == state().memory.end() || found->second->kind != kind) return nullptr;
  return found->second;
}

void let_go(Lock& /*lock*/, const AllocationRef& memory) {
  if (memory->kind != Allocation::Kind::kRegistered) {
    std::memset(memory->begin, kGone, memory->bytes);
  }
  if (memory->kind == Allocation::Kind::kDevice) memory->device->used_bytes -= memory->bytes;
  memory->phase = Allocation::Phase::kFreed;
  state().memory.erase(memory->begin);
}

// Frees at once what no queued operation may still use.
void free_now(Lock& lock, const AllocationRef& memory, const char* function) {
  const std::string name = function;
  if (memory->phase != Allocation::Phase::kLive) die(name + " of memory that is not there");
  if (memory->free_enqueued) die(name + " of memory that was given to cudaFreeAsync");
  if (memory->queued_uses > 0) die(name + " of memory that queued operations use");
  let_go(lock, memory);
}

}  // namespace

Allocation::~Allocation() {
  if (kind != Kind::kRegistered) std::free(begin);
}

bool find_memory(Lock& /*lock*/, const void* begin, std::size_t bytes, AllocationRef& found) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - first) return false;
  found = nullptr;
  for (const auto& [address, memory] : state().memory) {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    if (start >= first + bytes || start + memory->bytes <= first) continue;
    if (start > first || start + memory->bytes < first + bytes) return false;
    found = memory;
  }
  return true;
}

}  // namespace leat::stand_in

using namespace leat::stand_in;  // NOLINT(google-build-using-namespace): CUDA's functions are
                                 // global

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return api("cudaMalloc", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (memory == nullptr) return cudaErrorInvalidValue;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    AllocationRef made;
    const cudaError_t code = allocate_on_device(lock, *this_thread(lock).context, bytes, made);
    if (code == cudaSuccess) *memory = made->begin;
    return code;
  });
}

// Waits for the device, except for memory of cudaMallocAsync: there the caller must have done so.
cudaError_t cudaFree(void* begin) {
  return api("cudaFree", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (begin == nullptr) return cudaSuccess;
    const AllocationRef memory = find_begin(begin, Allocation::Kind::kDevice);
    if (memory == nullptr) return cudaErrorInvalidValue;
    if (!memory->stream_ordered) wait_for_device(lock, memory->device);
    if (memory->device->failed != cudaSuccess) return memory->device->failed;
    free_now(lock, memory, "cudaFree");
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t handle) {
  return api("cudaMallocAsync", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (memory == nullptr) return cudaErrorInvalidValue;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    const StreamRef stream = find_stream(lock, handle);
    if (stream->capture != nullptr) die("cudaMallocAsync in a capture is not modelled");
    AllocationRef made;
    cudaError_t code = allocate_on_device(lock, *stream->device, bytes, made);
    if (code != cudaSuccess) return code;
    made->stream_ordered = true;
    made->phase = Allocation::Phase::kPending;
    const auto reached = [made](Lock&) { made->phase = Allocation::Phase::kLive; };
    code = enqueue(lock, stream, {.run = reached});
    if (code == cudaSuccess) {
      *memory = made->begin;
    } else {
      let_go(lock, made);
    }
    return code;
  });
}

cudaError_t cudaFreeAsync(void* begin, cudaStream_t handle) {
  return api("cudaFreeAsync", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (begin == nullptr) return cudaSuccess;
    const StreamRef stream = find_stream(lock, handle);
    if (stream->capture != nullptr) die("cudaFreeAsync in a capture is not modelled");
    const AllocationRef memory = find_begin(begin, Allocation::Kind::kDevice);
    if (memory == nullptr) return cudaErrorInvalidValue;
    const auto reached = [memory](Lock& held) {
      if (memory->queued_uses > 1) {
        die("a stream reaches cudaFreeAsync of memory that operations of other streams still use");
      }
      let_go(held, memory);
    };
    const cudaError_t code = enqueue(lock, stream, {.run = reached, .uses = {memory}});
    if (code == cudaSuccess) memory->free_enqueued = true;
    return code;
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  return api("cudaHostAlloc", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (memory == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > kPinnedMemory || pinned_bytes() > kPinnedMemory - bytes) {
      return cudaErrorMemoryAllocation;
    }
    std::byte* const begin = new_bytes(bytes, kPage);
    if (begin == nullptr) return cudaErrorMemoryAllocation;
    const AllocationRef made = add(lock, Allocation::Kind::kPinned, begin, bytes);
    made->portable = true;  // all that CUDA allocates is, where addresses are unified
    made->write_combined = (flags & cudaHostAllocWriteCombined) != 0;
    *memory = made->begin;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* begin) {
  return api("cudaFreeHost", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (begin == nullptr) return cudaSuccess;
    const AllocationRef memory = find_begin(begin, Allocation::Kind::kPinned);
    if (memory == nullptr) return cudaErrorInvalidValue;
    wait_for_device(lock, nullptr);
    free_now(lock, memory, "cudaFreeHost");
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* begin, std::size_t bytes, unsigned flags) {
  constexpr unsigned kKnown =
      cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
  return api("cudaHostRegister", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (begin == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    AllocationRef found;
    if (!find_memory(lock, begin, bytes, found) || found != nullptr) {
      return found != nullptr && found->kind == Allocation::Kind::kDevice
                 ? cudaErrorInvalidValue
                 : cudaErrorHostMemoryAlreadyRegistered;
    }
    const AllocationRef made =
        add(lock, Allocation::Kind::kRegistered, static_cast<std::byte*>(begin), bytes);
    made->portable = (flags & cudaHostRegisterPortable) != 0;
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* begin) {
  return api("cudaHostUnregister", Needs::kSafeToCapture, [&](Lock& lock) -> cudaError_t {
    if (begin == nullptr) return cudaErrorInvalidValue;
    const AllocationRef memory = find_begin(begin, Allocation::Kind::kRegistered);
    if (memory == nullptr) return cudaErrorHostMemoryNotRegistered;
    free_now(lock, memory, "cudaHostUnregister");
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api("cudaPointerGetAttributes", Needs::kContext, [&](Lock& lock) -> cudaError_t {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;  // as the driver's cudaInvalidDeviceId
    AllocationRef memory;
    if (!find_memory(lock, pointer, 1, memory) || memory == nullptr) return cudaSuccess;
    const bool on_device = memory->kind == Allocation::Kind::kDevice;
    attributes->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = memory->device->number;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = on_device ? nullptr : const_cast<void*>(pointer);
    return cudaSuccess;
  });
}

}  // extern "C"
