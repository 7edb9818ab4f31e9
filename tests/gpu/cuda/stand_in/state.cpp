// What every call begins with, and the interface for tests.
#include "tests/gpu/cuda/stand_in/state.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "tests/gpu/cuda/stand_in/stand_in.h"

namespace leat::stand_in {
namespace {

constexpr int kDevices = 16;  // exist always, so that pointers to them stay valid

void make_devices(State& all) {
  for (int i = static_cast<int>(all.devices.size()); i < kDevices; ++i) {
    all.devices.push_back(std::make_unique<Device>());
    all.devices.back()->number = i;
  }
}

// Calls what `found` has in `hooks`, if it has anything, without the lock.
template <class Hooks>
void call_once(Lock& lock, Hooks& hooks, typename Hooks::iterator found) {
  if (found == hooks.end()) return;
  const auto f = std::move(found->second);
  hooks.erase(found);
  lock.unlock();
  {
    const support::Counting counting(true);
    f();
  }
  lock.lock();
}

// The error that an earlier call, a control or the driver's absence has decided on.
cudaError_t refused(Lock& lock, const char* name, Needs needs) {
  State& all = state();
  if (all.unloading) return cudaErrorCudartUnloading;
  if (this_thread(lock).in_host_function) {
    ++all.calls_in_host_functions;
    return cudaErrorNotPermitted;
  }
  if (const auto fault = all.faults.find(name);
      fault != all.faults.end() && --fault->second.in_calls == 0) {
    const cudaError_t code = fault->second.code;
    all.faults.erase(fault);
    return code;
  }
  if (needs == Needs::kNothing) return cudaSuccess;
  const cudaError_t code = usable(lock);
  if (code == cudaSuccess) all.initialised = true;
  return code;
}

}  // namespace

void die(const std::string& what) {
  static_cast<void>(std::fprintf(stderr, "CUDA stand-in: %s\n", what.c_str()));
  std::abort();
}

// Never destroyed: threads of streams, and what other statics hold, may come later. A forked child
// can ask what was called: no thread that it lacks has the mutex.
State& state() {
  static State& all = []() -> State& {
    auto* const made = new State;
    make_devices(*made);
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] { state().mutex.unlock(); });
    return *made;
  }();
  return all;
}

// Not in a thread's own memory: ThreadSanitizer takes the access of a fiber to that, on a worker
// that has just been started, for a race with the start.
[[gnu::no_sanitize("thread")]] Thread& this_thread(Lock& /*lock*/) {
  thread_local Thread* own = nullptr;
  if (own == nullptr) own = &state().of_threads.emplace_back();
  Thread& thread = *own;
  if (thread.generation != state().generation) {
    thread = Thread{.generation = state().generation, .in_host_function = thread.in_host_function};
  }
  return thread;
}

cudaError_t usable(Lock& /*lock*/) {
  const State& all = state();
  if (all.driver_version / 1000 < kRuntimeVersion / 1000) return cudaErrorInsufficientDriver;
  return all.device_count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t enter(Lock& lock, const char* name, Needs needs) {
  ++state().calls[name];
  if (const cudaError_t code = refused(lock, name, needs); code != cudaSuccess) return code;
  if (needs != Needs::kContext && needs != Needs::kSafeToCapture) return cudaSuccess;
  Thread& thread = this_thread(lock);
  if (thread.context == nullptr) {
    thread.context = state().devices.front().get();
    thread.context->retained = true;
  }
  if (thread.context->failed != cudaSuccess) return thread.context->failed;
  return needs == Needs::kSafeToCapture ? check_safe(lock) : cudaSuccess;
}

void begin_call(Lock& lock, const char* name) {
  auto& hooks = state().before_calls;
  if (!hooks.empty()) call_once(lock, hooks, hooks.find(name));
}

void end_call(Lock& lock, const char* name, cudaError_t code) {
  auto& hooks = state().on_answers;
  if (!hooks.empty()) call_once(lock, hooks, hooks.find({name, code}));
}

void shake(Lock& lock) {
  const auto number = state().shaking ? state().random() : 1;
  lock.unlock();
  if (number % 8 != 0) return;
  for (auto i = number / 8 % 16; i > 0; --i) std::this_thread::yield();
}

const int kRuntimeVersion = CUDART_VERSION / 1000 * 1000 + 90;

void reset() {
  State& all = state();
  Lock lock(all.mutex);
  for (auto& [handle, stream] : all.streams) {
    stream->destroyed = true;
    stream->filled.notify_all();
  }
  for (const auto& device : all.devices) {
    if (device->legacy == nullptr) continue;
    device->legacy->destroyed = true;
    device->legacy->filled.notify_all();
  }
  all.progress.wait(lock, [&] { return all.threads == 0; });

  all.streams.clear();
  all.draining.clear();
  all.events.clear();
  all.graphs.clear();
  all.memory.clear();
  for (const auto& capture : all.captures) capture->streams.clear();  // which refer to it
  all.captures.clear();
  all.faults.clear();
  all.before_calls.clear();
  all.on_answers.clear();
  all.calls.clear();
  all.devices.clear();
  make_devices(all);
  all.copied = {};
  all.pageable_copies = 0;
  all.calls_in_host_functions = 0;
  all.device_count = 2;
  all.driver_version = kRuntimeVersion;
  all.device_memory = std::size_t{1} << 30;
  all.unloading = false;
  all.initialised = false;
  all.shaking = false;
  all.recording_waits = false;
  all.waits.clear();
  all.delay = {};
  ++all.generation;
}

void set_devices(int count) {
  const Lock lock(state().mutex);
  if (count < 0 || count > kDevices) die("set_devices: 0 to 16");
  state().device_count = count;
}

void set_driver_version(int version) {
  const Lock lock(state().mutex);
  state().driver_version = version;
}

void set_device_memory(std::size_t bytes) {
  const Lock lock(state().mutex);
  state().device_memory = bytes;
}

void unload() {
  const Lock lock(state().mutex);
  state().unloading = true;
}

void fail_call(std::string_view function, cudaError_t code, std::uint64_t n) {
  const Lock lock(state().mutex);
  state().faults[std::string(function)] = {.in_calls = n, .code = code};
}

void before_call(std::string_view function, std::function<void()> f) {
  const Lock lock(state().mutex);
  state().before_calls[std::string(function)] = std::move(f);
}

void on_answer(std::string_view function, cudaError_t code, std::function<void()> f) {
  const Lock lock(state().mutex);
  state().on_answers[{std::string(function), code}] = std::move(f);
}

bool clear_faults() {
  const Lock lock(state().mutex);
  const bool all = state().faults.empty();
  state().faults.clear();
  return all;
}

void fail_device(int device, cudaError_t code, std::uint64_t n) {
  const Lock lock(state().mutex);
  Device& failing = *state().devices.at(static_cast<std::size_t>(device));
  if (n == 0) failing.failed = code;
  failing.fails_with = code;
  failing.fails_in = n;
}

void shake_threads() {
  const Lock lock(state().mutex);
  state().shaking = true;
}

void delay_operations(std::chrono::microseconds delay) {
  const Lock lock(state().mutex);
  state().delay = delay;
}

void record_waits() {
  const Lock lock(state().mutex);
  state().recording_waits = true;
}

std::vector<cudaStream_t> streams() {
  const Lock lock(state().mutex);
  std::vector<cudaStream_t> handles;  // a map's keys: handles grow
  for (const auto& [handle, stream] : state().streams) handles.push_back(handle);
  return handles;
}

std::vector<Wait> waits() {
  const Lock lock(state().mutex);
  return state().waits;
}

std::uint64_t calls(std::string_view function) {
  const Lock lock(state().mutex);
  const auto found = state().calls.find(function);
  return found == state().calls.end() ? 0 : found->second;
}

Calls all_calls() {
  const Lock lock(state().mutex);
  return state().calls;
}

Copied copied() {
  const Lock lock(state().mutex);
  return state().copied;
}

std::uint64_t pageable_copies() {
  const Lock lock(state().mutex);
  return state().pageable_copies;
}

std::uint64_t calls_in_host_functions() {
  const Lock lock(state().mutex);
  return state().calls_in_host_functions;
}

void wait_for_destroyed_streams() {
  Lock lock(state().mutex);
  const std::vector<StreamRef> draining = state().draining;
  for (const StreamRef& stream : draining) wait_for(lock, end_of(stream));
}

bool is_device_memory(const void* begin, std::size_t bytes) {
  Lock lock(state().mutex);
  AllocationRef memory;
  return find_memory(lock, begin, bytes, memory) && memory != nullptr &&
         memory->kind == Allocation::Kind::kDevice && memory->phase == Allocation::Phase::kLive;
}

Live live() {
  const State& all = state();
  const Lock lock(state().mutex);
  Live alive{
      .streams = all.streams.size(), .events = all.events.size(), .graphs = all.graphs.size()};
  for (const auto& device : all.devices) alive.device_bytes += device->used_bytes;
  for (const auto& [address, memory] : all.memory) {
    switch (memory->kind) {
      case Allocation::Kind::kDevice: ++alive.device_allocations; break;
      case Allocation::Kind::kPinned: ++alive.pinned_allocations; break;
      case Allocation::Kind::kRegistered: ++alive.registrations; break;
    }
    if (memory->write_combined) ++alive.write_combined;
  }
  for (const auto& [handle, event] : all.events) {
    if (event->timed) ++alive.timed_events;
    if (event->blocking_sync) ++alive.blocking_events;
  }
  return alive;
}

}  // namespace leat::stand_in
