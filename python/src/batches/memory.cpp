#include "leat/python/batches/memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/base/home_process.h"
#include "leat/feeder/interop/dlpack.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/python/calls/waiting.h"

namespace leat::python {
namespace {

using feeder::dlpack::DLDevice;

// A tensor of a batch. The device is the lease's.
class SlotMemory final : public Memory {
 public:
  SlotMemory(std::shared_ptr<Share> share, std::size_t i) : share_(std::move(share), i) {}
  DLDevice place() const override { return feeder::dlpack::device_of(device()); }
  const std::string& device_name() const override { return device().name(); }
  bool is_copy() const noexcept override { return false; }
  const gpu::Device& device() const override { return share_.share()->lease().device(); }
  void bind(const gpu::StreamRef& stream) override { share_.share()->lease().on(stream); }
  void require_bound() override { static_cast<void>(share_.share()->lease().tensors()); }
  const std::shared_ptr<Leases>& leases() const override { return share_.share()->leases(); }

 private:
  TensorShare share_;
};

// A copy in the CPU's memory. It keeps no device open.
class HostMemory final : public Memory {
 public:
  static constexpr std::align_val_t kAlignment{256};  // as slots have it

  HostMemory(std::string device_name, std::size_t bytes)
      : device_name_(std::move(device_name)), data_(operator new(bytes, kAlignment)) {}
  ~HostMemory() override { operator delete(data_, kAlignment); }
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  DLDevice place() const override { return {feeder::dlpack::kDLCPU, 0}; }
  const std::string& device_name() const override { return device_name_; }
  bool is_copy() const noexcept override { return true; }
  const gpu::Device& device() const override { refuse(); }
  void bind(const gpu::StreamRef& /*stream*/) override { refuse(); }
  void require_bound() override {}
  const std::shared_ptr<Leases>& leases() const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("leat: memory of the CPU has no streams");
  }

  const std::string device_name_;
  void* const data_;
};

class EndedMemory final : public Memory {
 public:
  DLDevice place() const override { return {feeder::dlpack::kDLCPU, 0}; }
  const std::string& device_name() const override { return nowhere_; }
  bool is_copy() const noexcept override { return false; }
  const gpu::Device& device() const override { refuse(); }
  void bind(const gpu::StreamRef& /*stream*/) override { refuse(); }
  void require_bound() override { refuse(); }
  const std::shared_ptr<Leases>& leases() const override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw std::logic_error("leat: this tensor was lent for a copy, which has ended");
  }

  const std::string nowhere_ = "no device";
};

// A copy in a GPU's memory. It is allocated and freed in the order of the feed's copy stream, which
// waits for all streams that the copy was used on: so its end waits for nothing.
class DeviceMemory final : public Memory {
 public:
  DeviceMemory(std::shared_ptr<Leases> leases, const gpu::Stream& copies, std::size_t bytes)
      : own_(std::make_unique<Own>(std::move(leases), copies, bytes)) {}
  ~DeviceMemory() override {
    if (!home_.is_here()) {
      static_cast<void>(own_.release());  // NOLINT(bugprone-unused-return-value): the parent's
      return;
    }
    try {
      for (const gpu::StreamRef& one : own_->bound) {
        own_->event.record(one);
        own_->copies.wait(own_->event);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): the device has failed; nothing runs any more
    }
  }
  void fill(std::byte* from) {
    const gpu::DeviceSpan to = own_->buffer.span();
    gpu::copy_async(own_->copies, to, gpu::DeviceSpan(from, to.size()));
    own_->event.record(own_->copies);
  }
  std::byte* data() const noexcept { return own_->buffer.data(); }
  DLDevice place() const override { return feeder::dlpack::device_of(device()); }
  const std::string& device_name() const override { return device().name(); }
  bool is_copy() const noexcept override { return true; }
  const gpu::Device& device() const override { return own_->copies.device(); }
  void bind(const gpu::StreamRef& stream) override {
    if (std::ranges::find(own_->bound, stream) != own_->bound.end()) return;
    stream.wait(own_->event);
    own_->bound.push_back(stream);
  }
  void require_bound() override {
    if (own_->bound.empty()) throw std::logic_error("leat: bind a stream before touching a copy");
  }
  const std::shared_ptr<Leases>& leases() const override { return own_->leases; }

 private:
  struct Own {
    Own(std::shared_ptr<Leases> a_leases, const gpu::Stream& a_copies, std::size_t bytes)
        : leases(std::move(a_leases)),
          copies(a_copies),
          buffer(copies, bytes),
          event(copies.device()) {}
    const std::shared_ptr<Leases> leases;  // which has the stream
    const gpu::StreamRef copies;
    const gpu::DeviceBuffer buffer;
    const gpu::Event event;  // the copy is there; at the end: what used it is done
    std::vector<gpu::StreamRef> bound;
  };
  const HomeProcess home_;
  std::unique_ptr<Own> own_;
};

}  // namespace

std::shared_ptr<Memory> slot_memory(const std::shared_ptr<Share>& share, std::size_t i) {
  return std::make_shared<SlotMemory>(share, i);
}

std::shared_ptr<Memory> ended_memory() { return std::make_shared<EndedMemory>(); }

CopiedMemory copy_of(Memory& from, std::byte* data, std::size_t bytes) {
  if (is_cpu(from.place())) {
    from.require_bound();  // on the CPU: the batch's copy is done
    auto memory = std::make_shared<HostMemory>(from.device_name(), bytes);
    std::memcpy(memory->data(), data, bytes);
    return {memory, memory->data()};
  }
  const gpu::Stream& copies = from.leases()->stream(from.device());
  auto memory = std::make_shared<DeviceMemory>(from.leases(), copies, bytes);
  from.bind(copies);
  memory->fill(data);
  return {memory, memory->data()};
}

CopiedMemory copy_to_host(Memory& from, std::byte* data, std::size_t bytes) {
  const InCall inside;
  const gpu::Stream& copies = from.leases()->stream(from.device());
  const gpu::PinnedBuffer pinned(from.device(), bytes);
  const gpu::Event done(from.device());
  from.bind(copies);
  gpu::copy_async(copies, pinned.span(), gpu::DeviceSpan(data, bytes));
  done.record(copies);
  wait_in_slices({}, [&](TimePoint until) { return done.await_until(until); });
  auto memory = std::make_shared<HostMemory>("host:0", bytes);
  std::memcpy(memory->data(), pinned.data(), bytes);
  return {memory, memory->data()};
}

}  // namespace leat::python
