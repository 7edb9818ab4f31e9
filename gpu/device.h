// Devices: which there are, and how to open one.
//
// Example
//   leat::gpu::Device device = leat::gpu::open("auto");   // the first CUDA device, or the host
//   std::cout << device.name() << '\n';                   // "cuda:0" or "host:0"
//
// A Device is a shared handle. Streams, events and buffers hold the device that they were made
// from, so the handle may be dropped before them. Thread-safe. The destructor of a host device's
// last handle waits until all queued work has run, because kernels are functions of the program.
// Then it ends the device's threads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/gpu/memory.h"

namespace leat::gpu {

class Backend;

/// What a device is.
struct DeviceInfo {
  std::string name;         // as given to open(): "cuda:0", "host:0"
  std::string description;  // the product's name
  std::size_t memory_bytes = 0;
  int copy_engines = 0;
  int numa_node = -1;  // the node that the device is attached to; -1: unknown or none
};

/// What a device can do. Read these instead of asking which backend a device has.
struct Capabilities {
  /// launch_host runs the function with a modelled duration on the device's compute engine. If
  /// false (CUDA), the function runs on a driver's thread, and must not call the device.
  bool host_kernels = false;
  /// The CPU can read and write device memory directly.
  bool device_memory_is_host_memory = false;
  /// native_handle() is a cudaStream_t, with which kernels are launched.
  bool cuda_kernels = false;
  /// Operations take time on the scheduler's clock, which may be virtual.
  bool virtual_time = false;
  /// Streams made without Leat can be used: StreamRef::from_native and legacy.
  bool foreign_streams = false;
  /// Memory allocated in a stream's order comes from a pool and is freed without waiting. If false,
  /// it is allocated and freed like any other memory.
  bool stream_ordered_memory = false;
  /// Several copies enqueued together are one operation of the device, according to the versions
  /// of driver and toolkit. If false, or if the driver then refuses, they are enqueued one by one.
  bool batched_copies = false;
};

/// An opened device. Copies are handles of the same device; a move leaves a handle unchanged.
class Device {
 public:
  /// For open() and open_host(). `backend` is not null.
  explicit Device(std::shared_ptr<Backend> backend) noexcept : backend_(std::move(backend)) {}
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;
  // A move copies: there is no Device without a device.
  Device(Device&& other) noexcept : backend_(other.backend_) {}  // NOLINT: see above
  Device& operator=(Device&& other) noexcept {
    backend_ = other.backend_;  // NOLINT: see above
    return *this;
  }
  ~Device() = default;

  /// Returns the name with its number, as given to open(): "cuda:0", "host:0".
  [[nodiscard]] const std::string& name() const noexcept;
  /// Returns what the device is. Does not change while it is open.
  [[nodiscard]] const DeviceInfo& info() const noexcept;
  /// Returns what the device can do. Does not change while it is open.
  [[nodiscard]] const Capabilities& capabilities() const noexcept;
  /// Returns the bytes that the buffers and arenas made with this device take, with peak and limit.
  [[nodiscard]] MemoryUse memory() const noexcept;
  /// Returns a handle of the same device that keeps its memory but not its threads: the threads of
  /// a host device end with its last other handle or stream. After that, the handle can still use
  /// and free memory and events, but a new Stream throws GpuError. On a CUDA device it is an
  /// ordinary handle.
  [[nodiscard]] Device for_memory() const;
  /// Returns the implementation; for the value types of gpu/.
  [[nodiscard]] const std::shared_ptr<Backend>& backend() const noexcept { return backend_; }
  /// Whether both are handles of the same opened device.
  friend bool operator==(const Device& a, const Device& b) noexcept {
    return a.backend_ == b.backend_;
  }

 private:
  std::shared_ptr<Backend> backend_;
};

/// Opens a device:
///   "auto"    the first CUDA device if there is one, else "host"
///   "cuda:N"  the N-th CUDA device of this machine ("cuda" is "cuda:0")
///   "host:N"  the N-th software device; every N exists ("host" is "host:0")
/// Throws leat::Error for an unknown name, a missing device or a missing driver; the message says
/// what is available. Throws GpuError for a device that exists and fails. Thread- and fiber-safe.
///
/// A host device opened on a fiber runs on that fiber's scheduler and clock, and fails (GpuError)
/// when that scheduler ends. A host device opened on a plain thread runs on a small scheduler of
/// its own, in real time. To model its times, see open_host (gpu/host_model.h).
[[nodiscard]] Device open(std::string_view name, const MemoryCaps& caps = {});

/// The devices of this machine, and the state of CUDA.
struct DeviceList {
  std::vector<DeviceInfo> devices;  // CUDA devices first; the last is "host:0"
  std::string cuda_status;          // such as "1 device, driver 13.0", or why there is none
};
/// Lists the devices. Asks the machine at each call, and creates no context on any device. Does
/// not throw if a device or CUDA is missing. A CUDA device that cannot be used is in the list, with
/// the reason as its description. Thread-safe.
[[nodiscard]] DeviceList list();

}  // namespace leat::gpu
