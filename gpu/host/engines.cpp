#include "leat/gpu/host/engines.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "leat/csp/clock.h"

namespace leat::gpu::host {
namespace {

// The stream fibers of all host devices. Never destroyed, because devices may be destroyed in any
// order at the end of the process.
constinit std::mutex stream_fibers_mutex;  // never held across a park
constinit StreamFiber* first_stream_fiber = nullptr;

}  // namespace

Engine::Engine(const std::string& name) : token_(1, name) {
  static_cast<void>(token_.try_send(Token{}));
}

Engines::Engines(std::string device, const HostModel& model, const SchedulerCore& scheduler)
    : device_(std::move(device)),
      model_(model),
      scheduler_(scheduler),
      virtual_time_(clock_of(scheduler).is_virtual()),
      keeps_device_time_(!virtual_time_ && (model.h2d_bandwidth > 0 || model.d2h_bandwidth > 0 ||
                                            model.copy_latency > Duration::zero())),
      h2d_(device_ + " H2D engine"),
      d2h_(device_ + " D2H engine"),
      compute_(device_ + " compute engine") {}

void Engines::refuse_foreign_virtual_time(const char* what) const {
  const SchedulerCore* const caller = calling_scheduler();
  if (caller == nullptr || caller == &scheduler_ || !clock_of(*caller).is_virtual()) return;
  throw std::logic_error("leat: " + std::string(what) + " on " + device_ +
                         ", which was opened elsewhere and does not take this run's virtual time: "
                         "open a device inside the run");
}

void Engines::refuse_to_wait_for(const SchedulerCore& other) const {
  if (!virtual_time_ || &other == &scheduler_) return;
  throw std::logic_error("leat: a stream of " + device_ +
                         ", whose time is virtual, cannot wait for a device that was opened "
                         "elsewhere and does not take that time: open both inside the run");
}

Engine& Engines::engine(CopyDirection direction) noexcept {
  switch (direction) {
    case CopyDirection::kHostToDevice: return h2d_;
    case CopyDirection::kDeviceToHost: return d2h_;
    case CopyDirection::kDeviceToDevice: break;
  }
  return compute_;
}

Duration Engines::copy_time(CopyDirection direction, std::size_t bytes,
                            bool with_latency) const noexcept {
  const Duration latency = with_latency ? model_.copy_latency : Duration::zero();
  const double bandwidth = direction == CopyDirection::kHostToDevice   ? model_.h2d_bandwidth
                           : direction == CopyDirection::kDeviceToHost ? model_.d2h_bandwidth
                                                                       : 0;
  if (!(bandwidth > 0)) return latency;
  // Divided last and rounded to nearest, so that a whole number of nanoseconds stays exact.
  const double nanoseconds = static_cast<double>(bytes) * 1e9 / bandwidth;
  constexpr Duration kMost =
      Duration::max() / 4;  // practically for ever; sums of two do not overflow
  if (nanoseconds >= static_cast<double>(kMost.count())) return kMost;
  return std::min(latency, kMost) + Duration(std::llround(nanoseconds));
}

const char* Engines::next_fault(bool copy, bool kernel) noexcept {
  const HostFaults& faults = model_.faults;
  const auto is = [](std::atomic<std::uint64_t>& count, std::uint64_t at) {
    return count.fetch_add(1, std::memory_order_relaxed) + 1 == at;
  };
  if (is(operations_, faults.lost_at)) return "device lost";
  if (copy && is(copies_, faults.copy)) return "a copy failed";
  if (kernel && is(kernels_, faults.kernel)) return "a kernel failed";
  return nullptr;
}

void Engines::fail(std::exception_ptr error) noexcept {
  const std::scoped_lock lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
}

std::exception_ptr Engines::error() const noexcept {
  const std::scoped_lock lock(mutex_);
  return error_;
}

StreamFiber::StreamFiber(const Engines& engines) noexcept
    : engines_(engines), fiber_(calling_fiber()) {
  const std::scoped_lock lock(stream_fibers_mutex);
  next_ = first_stream_fiber;
  if (next_ != nullptr) next_->previous_ = this;
  first_stream_fiber = this;
}

StreamFiber::~StreamFiber() {
  const std::scoped_lock lock(stream_fibers_mutex);
  (previous_ != nullptr ? previous_->next_ : first_stream_fiber) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

const Engines* StreamFiber::current() noexcept {
  const Fiber* const caller = calling_fiber();
  if (caller == nullptr) return nullptr;
  const std::scoped_lock lock(stream_fibers_mutex);
  const StreamFiber* one = first_stream_fiber;
  while (one != nullptr && one->fiber_ != caller) one = one->next_;
  return one != nullptr ? &one->engines_ : nullptr;
}

}  // namespace leat::gpu::host
