// A software stand-in for the CUDA runtime, for tests.
//
// It defines those cuda* functions that gpu/cuda/ and its tests call. Linked into a program before
// the toolkit's cudart, it takes that one's place: gpu/cuda/*.cpp, compiled unchanged, then really
// runs, under sanitizers, on a machine without a GPU. A function that is missing here is taken from
// the static cudart, together with all the others: the linker then refuses the duplicates.
//
// It is strict. What CUDA answers with an error is that error; what CUDA leaves undefined (a handle
// that was destroyed, memory that was freed, or not yet allocated, where a copy runs) ends the
// program with a line that says what was wrong.
//
// Modelled, as CUDA's headers document it, or, of the waiting of cudaFree and cudaFreeHost, as it
// is known to be:
//  - devices with a primary context each; the thread's current context, capture mode, last error; a
//    call without a current context makes device 0's current;
//  - streams that run on a thread each, in order, behind queues of bounded length; the legacy
//    stream and the blocking streams wait for each other;
//  - events: the latest record, what a wait has seen, timing, records of other devices;
//  - memory: which range belongs to which device, allocation or registration; that cudaFree and
//    cudaFreeHost wait; stream-ordered allocation; pageable copies, which wait and are counted;
//  - host functions, in which no call is permitted; sticky errors, after which nothing more runs;
//  - stream capture into graphs, and what invalidates it. Graphs are not launched.
//
// Not modelled, hence never shown by it: times; kernels; engines, and that work of independent
// streams may be serialised; memory that a CPU cannot read; what a driver really does where the
// documents are silent (which calls make a context current, what cudaHostUnregister does with
// queued copies, the end of the process). All of it has one lock: between threads that both call
// CUDA, ThreadSanitizer sees an order that a GPU need not give.
//
// This header is what tests ask it, and make it do. Thread-safe.
#pragma once

#include <driver_types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace leat::stand_in {

/// Of the runtime that it stands for, such as 13090: the last of the headers' major version, which
/// a driver of the first, 13000, runs.
extern const int kRuntimeVersion;

/// Back to the state of a process that has not called CUDA: two devices, no contexts, no errors, no
/// counts. Waits for queued work, then frees what was left over. Nothing of it may be in use.
void reset();

/// What there is.
void set_devices(int count);
void set_driver_version(int version);  // as 13000; 0: there is no driver
void set_device_memory(std::size_t bytes);
/// From now on every call returns cudaErrorCudartUnloading.
void unload();

/// The n-th next call of `function` (1: the next), a cuda* or cu* name, returns `code`, and does
/// nothing else.
void fail_call(std::string_view function, cudaError_t code, std::uint64_t n = 1);
/// `f` is called once, without a lock, before the next call of `function` does anything; or when
/// one was answered with `code`, before its caller learns that.
void before_call(std::string_view function, std::function<void()> f);
void on_answer(std::string_view function, cudaError_t code, std::function<void()> f);
/// Takes back what fail_call() has asked for. True if all of it has happened.
[[nodiscard]] bool clear_faults();
/// The device fails at the n-th next operation that it runs, or now (n = 0): nothing more runs on
/// it, and all calls return `code`, until reset().
void fail_device(int device, cudaError_t code, std::uint64_t n = 0);
/// From now on, some calls let other threads go first before they return: what a thread does
/// between two calls is interrupted more often than it would be. Off at first.
void shake_threads();
/// Every operation takes that much longer. Off at first.
void delay_operations(std::chrono::microseconds delay);
/// From now on waits() keeps what cudaStreamWaitEvent is asked for. Off at first.
void record_waits();

/// How often `function` was called since reset().
[[nodiscard]] std::uint64_t calls(std::string_view function);
/// The same of all functions that were called.
using Calls = std::map<std::string, std::uint64_t, std::less<>>;
[[nodiscard]] Calls all_calls();
/// What copies have moved since reset(), each piece of a batched one by itself.
struct Copied {
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  std::size_t largest = 0;  // piece
};
[[nodiscard]] Copied copied();
/// Copies from or to host memory that is not pinned, since reset().
[[nodiscard]] std::uint64_t pageable_copies();
/// Calls that host functions have made, since reset().
[[nodiscard]] std::uint64_t calls_in_host_functions();

/// The streams that there are, in the order in which they were made; without the legacy ones.
[[nodiscard]] std::vector<cudaStream_t> streams();
/// One wait of a stream for an event that was recorded on another. A legacy stream is
/// cudaStreamLegacy.
struct Wait {
  cudaStream_t waiting = nullptr;
  cudaStream_t recorded_on = nullptr;
  friend bool operator==(const Wait&, const Wait&) = default;
};
/// In their order, since record_waits(). Waits within a capture are left out.
[[nodiscard]] std::vector<Wait> waits();

/// What was made and not yet let go of.
struct Live {
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t timed_events = 0;     // of these
  std::size_t blocking_events = 0;  // likewise: cudaEventBlockingSync
  std::size_t device_allocations = 0;
  std::size_t device_bytes = 0;
  std::size_t pinned_allocations = 0;
  std::size_t write_combined = 0;  // of these
  std::size_t registrations = 0;
  std::size_t graphs = 0;
  friend bool operator==(const Live&, const Live&) = default;
};
[[nodiscard]] Live live();
/// Whether all of these bytes lie in one allocation of a device's memory.
[[nodiscard]] bool is_device_memory(const void* begin, std::size_t bytes);
/// What is queued on streams that were destroyed, frees of memory among it, has run.
void wait_for_destroyed_streams();

}  // namespace leat::stand_in
