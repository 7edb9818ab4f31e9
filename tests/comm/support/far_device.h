// A device whose memory the CPU does not reach: the host device, whose addresses are moved to where
// there is no memory. Who reads or writes them without a copy crashes. So the ways of a GPU's
// memory run in virtual time and under sanitizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/host_model.h"

namespace leat::comm::support {

class FarBackend final : public gpu::Backend {
 public:
  explicit FarBackend(const gpu::HostModel& model)
      : host_(gpu::open_host(model).backend()), capabilities_(host_->capabilities()) {
    capabilities_.device_memory_is_host_memory = false;
  }

  /// Where memory of the device really is; for kernels.
  [[nodiscard]] static std::byte* reach(const void* far) noexcept { return moved(far, -kFar); }

  [[nodiscard]] const gpu::DeviceInfo& info() const noexcept override { return host_->info(); }
  [[nodiscard]] const gpu::Capabilities& capabilities() const noexcept override {
    return capabilities_;
  }
  [[nodiscard]] const char* family() const noexcept override { return host_->family(); }
  [[nodiscard]] const SchedulerCore* scheduler() const noexcept override {
    return host_->scheduler();
  }
  [[nodiscard]] std::shared_ptr<SchedulerCore> own_scheduler() const noexcept override {
    return host_->own_scheduler();
  }
  gpu::StreamHandle create_stream() override { return host_->create_stream(); }
  void destroy_stream(gpu::StreamHandle one) noexcept override { host_->destroy_stream(one); }
  gpu::StreamHandle wrap_stream(void* native) override { return host_->wrap_stream(native); }
  gpu::StreamHandle legacy_stream() override { return host_->legacy_stream(); }
  [[nodiscard]] bool is_capturing(gpu::StreamHandle one) override {
    return host_->is_capturing(one);
  }
  [[nodiscard]] void* native_handle(gpu::StreamHandle one) const noexcept override {
    return host_->native_handle(one);
  }
  void sync(gpu::StreamHandle one) override { host_->sync(one); }
  [[nodiscard]] bool is_done(gpu::StreamHandle one) override { return host_->is_done(one); }
  gpu::EventHandle create_event(bool timed) override { return host_->create_event(timed); }
  void destroy_event(gpu::EventHandle one) noexcept override { host_->destroy_event(one); }
  void record(gpu::EventHandle event, gpu::StreamHandle stream) override {
    host_->record(event, stream);
  }
  void wait(gpu::StreamHandle stream, gpu::EventHandle event) override {
    host_->wait(stream, event);
  }
  void sync(gpu::EventHandle event) override { host_->sync(event); }
  [[nodiscard]] bool is_done(gpu::EventHandle event) override { return host_->is_done(event); }
  void await(gpu::EventHandle event) override { host_->await(event); }
  void subscribe(gpu::EventHandle event, const gpu::DoneSignalRef& signal) override {
    host_->subscribe(event, signal);
  }
  void unsubscribe(gpu::DoneSignal& signal) noexcept override { host_->unsubscribe(signal); }
  [[nodiscard]] Duration elapsed(gpu::EventHandle start, gpu::EventHandle end) override {
    return host_->elapsed(start, end);
  }
  void* allocate_device(std::size_t bytes) override {
    return moved(host_->allocate_device(bytes), kFar);
  }
  [[nodiscard]] bool free_device(void* memory) noexcept override {
    return host_->free_device(reach(memory));
  }
  void* allocate_device(std::size_t bytes, gpu::StreamHandle stream) override {
    return moved(host_->allocate_device(bytes, stream), kFar);
  }
  [[nodiscard]] bool free_device(void* memory, gpu::StreamHandle stream) noexcept override {
    return host_->free_device(reach(memory), stream);
  }
  void* allocate_pinned(std::size_t bytes, gpu::PinnedUse use) override {
    return host_->allocate_pinned(bytes, use);
  }
  [[nodiscard]] bool free_pinned(void* memory) noexcept override {
    return host_->free_pinned(memory);
  }
  void pin_pages(gpu::PageMapping& pages) override { host_->pin_pages(pages); }
  [[nodiscard]] bool free_pages(gpu::PageMapping pages, bool are_pinned) noexcept override {
    return host_->free_pages(std::move(pages), are_pinned);
  }
  void copy_async(gpu::StreamHandle stream, void* to, const void* from, std::size_t bytes,
                  gpu::CopyDirection direction) override {
    const bool to_far = direction != gpu::CopyDirection::kDeviceToHost;
    const bool from_far = direction != gpu::CopyDirection::kHostToDevice;
    host_->copy_async(stream, to_far ? reach(to) : to, from_far ? reach(from) : from, bytes,
                      direction);
  }
  void copy_batch_async(gpu::StreamHandle stream, std::span<const gpu::CopyRange> copies,
                        gpu::CopyDirection direction) override {
    for (const gpu::CopyRange& one : copies) {
      FarBackend::copy_async(stream, one.to, one.from, one.bytes, direction);
    }
  }
  void launch_host(gpu::StreamHandle stream, UniqueFunction<void()> function,
                   Duration time) override {
    host_->launch_host(stream, std::move(function), time);
  }

 private:
  static constexpr std::intptr_t kFar = std::intptr_t{1} << 46;  // no address of a process
  static std::byte* moved(const void* at, std::intptr_t by) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): not a pointer into an object
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::intptr_t>(at) + by);
  }

  const std::shared_ptr<gpu::Backend> host_;
  gpu::Capabilities capabilities_;
};

/// Opens such a device, as gpu::open_host() does.
[[nodiscard]] inline gpu::Device open_far(const gpu::HostModel& model = {}) {
  return gpu::Device(std::make_shared<FarBackend>(model));
}

}  // namespace leat::comm::support
