// Devices: what there is, and how to open one.
//
// Example
//   leat::gpu::Device device = leat::gpu::open("auto");   // the first CUDA device, or the host
//   std::cout << device.name() << '\n';                   // "cuda:0" or "host:0"
//
// A Device is a shared handle; streams, events and buffers made from it hold it, so it may be
// dropped before them. Thread-safe. The last of them to go, of a host device, waits until what is
// queued there has run: its kernels are the program's own functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/error.h"

namespace leat::gpu {

/// An opened device. Copies are handles of the same one, and a handle that was moved from is as
/// before.
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

  /// As in open(), with its number: "cuda:0", "host:0".
  [[nodiscard]] const std::string& name() const noexcept { return backend_->info().name; }
  /// What it is, and what it can do: settled when it is opened.
  [[nodiscard]] const DeviceInfo& info() const noexcept { return backend_->info(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept {
    return backend_->capabilities();
  }
  /// What the buffers and arenas made with this device take, and may take.
  [[nodiscard]] MemoryUse memory() const noexcept {
    return {.device = backend_->account(Space::kDevice).figures(),
            .pinned = backend_->account(Space::kPinned).figures()};
  }
  /// For the value types of gpu/.
  [[nodiscard]] const std::shared_ptr<Backend>& backend() const noexcept { return backend_; }
  /// Whether both are the same opened device.
  friend bool operator==(const Device& a, const Device& b) noexcept {
    return a.backend_ == b.backend_;
  }

 private:
  std::shared_ptr<Backend> backend_;
};

/// Operations of a host device that fail, counted from 1 in the order in which the device begins
/// them; 0: none does. After the first failure the device accepts no more work, as a GPU does not:
/// whoever waits and whoever enqueues is told by GpuError.
struct HostFaults {
  std::uint64_t copy = 0;    // that copy, of all streams, goes wrong: nothing is copied
  std::uint64_t kernel = 0;  // that kernel (launch_host) goes wrong: its function is not called
  /// The device is lost at that operation of whatever kind: a copy, a kernel, a record, a wait for
  /// what is not done yet; the sync of a stream is a record.
  std::uint64_t lost_at = 0;
};

/// How a host device spends time, and what goes wrong. The default models nothing: operations take
/// the time they take.
///
/// Where the link is modelled, operations follow each other in device time: a timer that fires late
/// makes no later operation late.
struct HostModel {
  /// Bytes per second of each direction of the link; 0: not modelled.
  double h2d_bandwidth = 0;
  double d2h_bandwidth = 0;
  /// Time that every copy takes besides its bytes.
  Duration copy_latency = Duration::zero();
  /// Device memory that allocations may sum up to; 0: as much as this machine has.
  std::size_t memory_bytes = 0;
  HostFaults faults = {};
};

/// Opens a device:
///   "auto"    the first CUDA device if there is one, else "host"
///   "cuda:N"  the N-th CUDA device of this machine ("cuda" is "cuda:0")
///   "host:N"  the N-th of as many software devices as are asked for ("host" is "host:0")
/// Throws leat::Error, saying what there is: an unknown name, no such device, no driver; GpuError
/// where there is one that fails.
///
/// A host device opened on a fiber runs on that fiber's scheduler and clock, and fails (GpuError)
/// when that scheduler ends; opened on a plain thread it runs on a small scheduler of its own, in
/// real time.
[[nodiscard]] Device open(std::string_view name, const MemoryCaps& caps = {});
/// As open("host:N"), with modelled times and faults. Throws std::invalid_argument for a negative
/// number or latency, and for a bandwidth that is negative or NaN.
[[nodiscard]] Device open_host(const HostModel& model, int index = 0, const MemoryCaps& caps = {});

/// The devices of this machine, and why there are not more. Creates no context on any of them.
struct DeviceList {
  std::vector<DeviceInfo> devices;  // CUDA devices first; the last is "host:0"
  std::string cuda_status;          // such as "1 device, driver 13.0", or why there is none
};
/// Asks the machine at each call. What is missing is told, not thrown; a CUDA device that cannot
/// be used is in the list, with the reason as its description.
[[nodiscard]] DeviceList list();

}  // namespace leat::gpu
