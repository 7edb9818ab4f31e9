// What the stand-in consists of, for its own files. All of it is guarded by one mutex,
// State::mutex, except what says otherwise; functions that take a Lock& are called with it held.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/uncounted.h"

namespace leat::stand_in {

using Lock = std::unique_lock<std::mutex>;

/// Ends the program: what was done is undefined in CUDA.
[[noreturn]] void die(const std::string& what);

struct Device {
  int number = 0;
  bool retained = false;             // its primary context exists
  cudaError_t failed = cudaSuccess;  // the sticky error
  cudaError_t fails_with = cudaSuccess;
  std::uint64_t fails_in = 0;  // operations; 0: it does not
  std::size_t used_bytes = 0;
  std::shared_ptr<struct Stream> legacy;  // from its first use on
};

/// Memory that CUDA knows. Host ranges have no device's memory.
struct Allocation {
  enum class Kind : std::uint8_t { kDevice, kPinned, kRegistered };
  enum class Phase : std::uint8_t {
    kPending,  // cudaMallocAsync: its stream has not reached it
    kLive,
    kFreed,  // the free has run; the bytes stay until no operation refers to them
  };
  Allocation(Kind a_kind, Device* a_device, std::byte* a_begin, std::size_t a_bytes)
      : kind(a_kind), device(a_device), begin(a_begin), bytes(a_bytes) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  const Kind kind;
  Device* const device;  // the current one when it was made
  std::byte* const begin;
  const std::size_t bytes;
  Phase phase = Phase::kLive;
  bool portable = false;  // pinned for all devices, not only for its own
  bool write_combined = false;
  bool stream_ordered = false;    // by cudaMallocAsync
  bool free_enqueued = false;     // by cudaFreeAsync
  std::uint64_t queued_uses = 0;  // by operations that have not run
};
using AllocationRef = std::shared_ptr<Allocation>;

/// A place in a stream's work: done when the stream has run that many operations.
struct Mark {
  std::shared_ptr<struct Stream> stream;
  std::uint64_t number = 0;
  [[nodiscard]] bool done() const;
};

/// One operation of a stream. `run` is called with the lock held, which it may let go of meanwhile;
/// not at all once the device has failed.
struct Operation {
  std::function<void(Lock&)> run;
  std::vector<Mark> after;          // of other streams
  std::vector<AllocationRef> uses;  // that must live when it runs
  void* keeps = nullptr;            // a host function's argument, perhaps the only reference to it
};

struct Graph {
  std::vector<Operation> nodes;
};

/// From cudaStreamBeginCapture to cudaStreamEndCapture. A captured operation has a number in its
/// stream; a clock says up to which number something comes after the operations of each stream.
struct Capture {
  using Clock = std::map<const struct Stream*, std::uint64_t>;
  std::shared_ptr<struct Stream> origin;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalidated = false;
  bool ended = false;
  std::map<std::shared_ptr<struct Stream>, Clock> streams;  // that take part, with their clocks
  Graph graph;
};

struct Stream {
  cudaStream_t handle = cudaStreamLegacy;
  Device* device = nullptr;
  bool blocking = false;
  bool legacy = false;
  bool destroyed = false;       // ends when its queue is empty
  std::deque<Operation> queue;  // its first is being run
  std::uint64_t enqueued = 0;
  std::uint64_t ran = 0;
  std::condition_variable filled;    // or destroyed
  std::shared_ptr<Capture> capture;  // that it takes part in
};
using StreamRef = std::shared_ptr<Stream>;

struct Record {
  Mark mark;
  std::chrono::steady_clock::time_point time;  // once it is done
};

struct Event {
  Device* device = nullptr;
  bool timed = false;
  bool blocking_sync = false;
  std::shared_ptr<Record> latest;     // null: never recorded, or within a capture
  std::shared_ptr<Capture> captured;  // where the latest record was captured
  Capture::Clock clock;               // of that record
};

/// What CUDA keeps for each thread.
struct Thread {
  std::uint64_t generation = 0;
  Device* context = nullptr;  // whose primary context is current; null: none
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
};

struct State {
  std::mutex mutex;
  std::condition_variable progress;  // an operation has run, or a thread has ended
  std::uint64_t generation = 0;      // counts reset()

  int device_count = 2;
  int driver_version = kRuntimeVersion;
  std::size_t device_memory = std::size_t{1} << 30;
  bool unloading = false;
  bool initialised = false;  // by cuInit, or by the runtime
  bool shaking = false;
  bool recording_waits = false;
  std::vector<Wait> waits;
  std::minstd_rand random;  // not one for each thread, whose fibers would share it unlocked
  std::chrono::microseconds delay{0};
  std::vector<std::unique_ptr<Device>> devices;

  std::uint64_t next_handle = 0;  // never used again, so that a stale one is known
  std::map<cudaStream_t, StreamRef> streams;
  std::vector<StreamRef> draining;  // destroyed while they had work queued
  std::map<cudaEvent_t, std::shared_ptr<Event>> events;
  std::map<cudaGraph_t, std::unique_ptr<Graph>> graphs;
  std::map<std::byte*, AllocationRef> memory;  // by address; no two overlap
  std::vector<std::shared_ptr<Capture>> captures;
  /// Arguments of host functions that will not run, because the device has failed. Leat cannot know
  /// that and leaves them allocated. They are kept here, so that they do not count as leaks.
  std::vector<void*> never_ran;
  int threads = 0;
  std::deque<Thread> of_threads;  // also of those that have ended

  struct Fault {
    std::uint64_t in_calls = 0;
    cudaError_t code = cudaSuccess;
  };
  std::map<std::string, Fault, std::less<>> faults;
  std::map<std::string, std::function<void()>, std::less<>> before_calls;
  std::map<std::pair<std::string, cudaError_t>, std::function<void()>> on_answers;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  Copied copied;
  std::uint64_t pageable_copies = 0;
  std::uint64_t calls_in_host_functions = 0;

  template <class Handle>
  [[nodiscard]] Handle new_handle() {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(0x10000 + 64 * ++next_handle));
  }
};
[[nodiscard]] State& state();

[[nodiscard]] Thread& this_thread(Lock& lock);

/// What a function needs before it does anything.
enum class Needs : std::uint8_t {
  kNothing,
  kDriver,        // and devices
  kContext,       // makes device 0's current where there is none
  kSafeToCapture  // a context, and that no capture forbids potentially unsafe calls
};
/// Counts the call, and says why it may not go on.
[[nodiscard]] cudaError_t enter(Lock& lock, const char* name, Needs needs);
/// Whether there is a driver and a device.
[[nodiscard]] cudaError_t usable(Lock& lock);

/// Lets other threads go first, now and then, where that was asked for. The lock is gone
/// afterwards.
void shake(Lock& lock);

/// What before_call() and on_answer() have asked for.
void begin_call(Lock& lock, const char* name);
void end_call(Lock& lock, const char* name, cudaError_t code);

/// The body of every function: `f(lock)` says how it ends, unless enter() does.
template <class F>
cudaError_t api(const char* name, Needs needs, F&& f) {
  const support::Counting counting(false);
  Lock lock(state().mutex);
  begin_call(lock, name);
  cudaError_t code = enter(lock, name, needs);
  if (code == cudaSuccess) code = f(lock);
  end_call(lock, name, code);
  if (code != cudaSuccess) this_thread(lock).last_error = code;
  shake(lock);
  return code;
}

// streams.cpp
[[nodiscard]] StreamRef start_stream(Lock& lock, Device& device, bool blocking, bool legacy);
/// The stream that a handle means; null and cudaStreamLegacy are that of the current device. Dies
/// if there is none.
[[nodiscard]] StreamRef find_stream(Lock& lock, cudaStream_t handle);
/// Puts the operation into the stream's queue, or into the graph that it is captured into.
[[nodiscard]] cudaError_t enqueue(Lock& lock, const StreamRef& stream, Operation operation);
/// The end of what was enqueued.
[[nodiscard]] Mark end_of(const StreamRef& stream);
void wait_for(Lock& lock, const Mark& mark);
/// Waits for all that was enqueued on a device; null: on all.
void wait_for_device(Lock& lock, const Device* device);

// capture.cpp
/// Invalidates the captures that forbid this thread a potentially unsafe call, if there are any.
[[nodiscard]] cudaError_t check_safe(Lock& lock);
/// Whether an operation may be given to the stream.
[[nodiscard]] cudaError_t check_capture(Lock& lock, const Stream& stream);
/// Whether a stream may be asked about, or waited for, by the host.
[[nodiscard]] cudaError_t check_not_captured(Lock& lock, const Stream& stream);
[[nodiscard]] cudaError_t check_not_captured(Lock& lock, const Event& event);
void capture_record(Lock& lock, const StreamRef& stream, Event& event);
/// A wait for an event where the stream or the event is of a capture.
[[nodiscard]] cudaError_t capture_wait(Lock& lock, const StreamRef& stream, const Event& event);

// memory.cpp
/// The allocation that [begin, begin + bytes) lies in; null if it touches none. False if it leaves
/// one.
[[nodiscard]] bool find_memory(Lock& lock, const void* begin, std::size_t bytes,
                               AllocationRef& found);

}  // namespace leat::stand_in
