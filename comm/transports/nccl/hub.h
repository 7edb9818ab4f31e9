// What all of a world's NCCL transports in this process share: the library, and the lanes.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "leat/comm/transports/nccl/lane.h"
#include "leat/comm/transports/world.h"

namespace leat::comm::nccl {

/// Thread-safe. Its world outlives it.
class Hub final : private World::Companion {
 public:
  Hub(World& world, std::shared_ptr<const Library> library)
      : world_(world), library_(std::move(library)) {
    world_.add_companion(*this);
  }
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  /// Waits until NCCL's communicators have ended, at most for the deadline. All of their ranks take
  /// part in that.
  ~Hub() override {
    for (const std::shared_ptr<Lane>& one : lanes_) one->close();
    for (const std::shared_ptr<Lane>& one : lanes_) one->wait();  // one that fails ends them all
    world_.remove_companion(*this);
  }

  /// A lane of the ranks of `beside`. The caller ends it by close(). Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<Lane> make_lane(const gpu::Device& device,
                                                std::shared_ptr<comm::Transport> beside) {
    auto lane = std::make_shared<Lane>(library_, device, std::move(beside));
    std::vector<std::shared_ptr<Lane>> ended;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    for (auto one = lanes_.begin(); one != lanes_.end();) {
      if (!(*one)->has_ended()) {
        ++one;
        continue;
      }
      ended.push_back(std::move(*one));
      one = lanes_.erase(one);
    }
    lanes_.push_back(lane);
    if (is_stopped_) lane->stop();
    return lane;
  }

 private:
  void stop() noexcept override {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    for (const std::shared_ptr<Lane>& one : lanes_) one->stop();
  }

  World& world_;
  const std::shared_ptr<const Library> library_;
  std::mutex mutex_;  // while lanes are stopped
  bool is_stopped_ = false;
  std::vector<std::shared_ptr<Lane>> lanes_;
};

}  // namespace leat::comm::nccl
