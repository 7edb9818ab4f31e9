// The transport between the ranks that mpirun started, and its world.
//
// A process opens it once, because after a failure no call of MPI may be made any more, and because
// MPI cannot be initialised twice. For more communicators: split() and duplicate().
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/group.h"
#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"

namespace leat::comm::mpi {

/// The world of MPI's ranks.
class MpiWorld final : public World {
 public:
  MpiWorld(const OpenOptions& options, Engine& engine);
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld() override;
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }

 protected:
  void stop(const Failure& failure, bool tell) noexcept override;
  [[nodiscard]] Failure late(const Operation& operation) override;

 private:
  Engine& engine_;
};

/// This process's end of a communicator.
class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiWorld> world, std::shared_ptr<Group> group);
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  ~MpiTransport() override;

  [[nodiscard]] int rank() const noexcept override { return group_->rank(); }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  [[nodiscard]] int world_rank() const noexcept override {
    return group_->world_rank(group_->rank());
  }
  [[nodiscard]] World& world() const noexcept override { return *world_; }
  void begin(Operation& operation) noexcept override;
  [[nodiscard]] std::shared_ptr<Transport> subset(std::uint64_t context,
                                                  std::span<const int> members) override;
  [[nodiscard]] std::uint64_t context() const noexcept override { return group_->context(); }
  void post(int to, std::span<const Notice> notices) override;
  void listen(Channel<Notice> notices) override;
  void leave() noexcept override;

 private:
  const std::shared_ptr<MpiWorld> world_;
  const std::shared_ptr<Group> group_;
  std::atomic<bool> left_{false};
};

}  // namespace leat::comm::mpi
