// The conformance suite's data is the host's. Here each operation is done in device memory: its
// data is copied there, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/reduce.h"
#include "leat/comm/transports/transport.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"

namespace leat::comm::support {

/// Device memory of one rank, taken from one end to the other, again and again. The CPU reaches it:
/// it is the stand-in's.
class Arena {
 public:
  explicit Arena(const gpu::Device& device) : memory_(device, std::size_t{256} << 10) {}
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    ++users_;
    const std::size_t first = used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ <= memory_.size()) return memory_.data() + first;
    used_ = first;
    return large_.emplace_back(memory_.device(), bytes).data();  // until the end
  }
  void give() {
    const std::scoped_lock lock(mutex_);
    if (--users_ == 0) used_ = 0;
  }

 private:
  gpu::DeviceBuffer memory_;
  std::list<gpu::DeviceBuffer> large_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  int users_ = 0;
};

/// A transport of NCCL's that does in device memory what it is asked to do in the host's.
class OnDevice final : public Transport {
 public:
  static std::shared_ptr<Transport> around(std::shared_ptr<Transport> inner) {
    auto arena = std::make_shared<Arena>(*inner->device());
    return std::make_shared<OnDevice>(std::move(inner), std::move(arena));
  }
  OnDevice(std::shared_ptr<Transport> inner, std::shared_ptr<Arena> arena)
      : inner_(std::move(inner)), arena_(std::move(arena)) {}
  ~OnDevice() override { inner_->leave(); }

  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] int world_rank() const noexcept override { return inner_->world_rank(); }
  [[nodiscard]] World& world() const noexcept override { return inner_->world(); }
  [[nodiscard]] std::uint64_t context() const noexcept override { return inner_->context(); }
  void help(Operation& operation) noexcept override { inner_->help(operation); }
  void post(int to, std::span<const Notice> notices) override { inner_->post(to, notices); }
  void listen(Channel<Notice> notices) override { inner_->listen(std::move(notices)); }
  void leave() noexcept override { inner_->leave(); }
  [[nodiscard]] std::shared_ptr<Transport> subset(std::uint64_t context,
                                                  std::span<const int> members) override {
    return std::make_shared<OnDevice>(inner_->subset(context, members), arena_);
  }

  void begin(Operation& operation) noexcept override {
    const Signature& called = operation.signature;
    if (called.kind == OperationKind::kBarrier) return inner_->begin(operation);
    const std::size_t size = gpu::size_of(called.dtype);
    const auto [first, second] = chunk_of(called.count, rank(), this->size());
    const std::size_t whole = called.count * size;
    const std::size_t chunk = (second - first) * size;
    const bool gathers = called.kind == OperationKind::kAllGather;
    const bool scatters = called.kind == OperationKind::kReduceScatter;

    Moved* moved = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      moved = &moved_.emplace_back();
      moved->self = std::prev(moved_.end());
    }
    moved->owner = this;
    moved->outer = &operation;
    moved->out_bytes = operation.out == nullptr ? 0 : scatters ? chunk : whole;
    moved->memory = arena_->take(2 * whole + 256);
    // In place there if it is here.
    std::byte* in = moved->memory;
    std::byte* out = in + (whole + 255) / 256 * 256;
    const auto* const from = static_cast<const std::byte*>(operation.in);
    const auto* const to = static_cast<const std::byte*>(operation.out);
    if (from != nullptr && from == to) out = in;
    if (scatters && to == from + first * size) out = in + first * size;
    if (gathers && from == to + first * size) in = out + first * size;
    if (called.kind == OperationKind::kBroadcast && whole > 0) std::memcpy(out, to, whole);
    if (from != nullptr && whole > 0) std::memcpy(in, from, gathers ? chunk : whole);
    moved->out = out;
    moved->inner = operation;
    moved->inner.signature.on_device = true;
    moved->inner.in = from != nullptr ? in : nullptr;
    moved->inner.out = operation.out != nullptr ? out : nullptr;
    moved->inner.help_wanted = nullptr;
    moved->inner.owner = moved;
    moved->inner.finished = &OnDevice::finished;
    inner_->begin(moved->inner);
  }

 private:
  struct Moved {
    OnDevice* owner = nullptr;
    Operation inner;
    Operation* outer = nullptr;
    std::byte* memory = nullptr;
    std::byte* out = nullptr;
    std::size_t out_bytes = 0;
    std::list<Moved>::iterator self;
  };

  static void finished(Operation& inner, const Failure* failure) noexcept {
    auto& moved = *static_cast<Moved*>(inner.owner);
    OnDevice& self = *moved.owner;
    Operation& outer = *moved.outer;
    if (failure == nullptr && moved.out_bytes > 0) {
      std::memcpy(outer.out, moved.out, moved.out_bytes);
    }
    self.arena_->give();
    {
      const std::scoped_lock lock(self.mutex_);
      self.moved_.erase(moved.self);
    }
    outer.finished(outer, failure);
  }

  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<Arena> arena_;
  std::mutex mutex_;
  std::list<Moved> moved_;
};

}  // namespace leat::comm::support
