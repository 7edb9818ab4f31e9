#include "leat/comm/transports/local/local.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "leat/comm/transports/local/local_world.h"

namespace leat::comm {
namespace {

// One rank's end of one communicator.
class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalWorld> world, std::shared_ptr<Group> group, int rank)
      : world_(std::move(world)), group_(std::move(group)), rank_(rank) {
    world_->recorder(LocalTransport::world_rank()).joined(group_->context, group_->members);
  }
  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;
  ~LocalTransport() override {
    LocalTransport::leave();
    world_->close(*group_);
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  [[nodiscard]] int world_rank() const noexcept override { return group_->member(rank_); }
  [[nodiscard]] World& world() const noexcept override { return *world_; }
  [[nodiscard]] std::uint64_t context() const noexcept override { return group_->context; }

  void begin(Operation& operation) noexcept override { world_->begin(*group_, rank_, operation); }
  void help(Operation& /*operation*/) noexcept override { world_->help(*group_); }
  void post(int to, std::span<const Notice> notices) override {
    world_->post(group_, rank_, to, notices);
  }
  void reserve(std::size_t operations) override {
    if (rank_ == 0) world_->reserve(*group_, operations);
  }
  void listen(Channel<Notice> notices) override {
    world_->listen(*group_, rank_, std::move(notices));
  }
  void leave() noexcept override {
    world_->recorder(LocalTransport::world_rank()).left(group_->context);
    world_->leave(*group_, rank_);
  }

  [[nodiscard]] std::shared_ptr<Transport> subset(std::uint64_t context,
                                                  std::span<const int> members) override {
    std::vector<int> in_world;
    in_world.reserve(members.size());
    for (const int rank : members) in_world.push_back(group_->member(rank));
    const auto mine = std::ranges::find(members, rank_) - members.begin();
    return std::make_shared<LocalTransport>(world_, world_->open_group(context, in_world),
                                            static_cast<int>(mine));
  }

 private:
  const std::shared_ptr<LocalWorld> world_;  // destroyed last
  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> open_local(int ranks, const OpenOptions& options) {
  const auto world = std::make_shared<LocalWorld>(ranks, options);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const std::shared_ptr<Group> group = world->open_group(0, members);
  std::vector<std::shared_ptr<Transport>> ends;
  ends.reserve(members.size());
  for (const int rank : members) {
    ends.push_back(std::make_shared<LocalTransport>(world, group, rank));
  }
  return ends;
}

}  // namespace leat::comm
