#include "leat/comm/transports/mpi/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::mpi {
namespace {

// What MPI's thread needs to answer, unless it has no CPU.
constexpr Duration kAnswer = std::chrono::milliseconds(200);

}  // namespace

MpiWorld::MpiWorld(const OpenOptions& options, Engine& engine)
    : World(options, engine.size(), engine.rank(), 1), engine_(engine) {}

MpiWorld::~MpiWorld() {
  engine_.world_ends();
  end();
}

void MpiWorld::stop(const Failure& failure, bool tell) noexcept { engine_.stop(failure, tell); }

Failure MpiWorld::late(const Operation& operation) {
  const auto question = std::make_shared<Question>();
  question->operation = operation;
  engine_.ask(question);
  {
    const OutsideWork outside;
    // Without an answer all ranks count as having called.
    if (!question->answered.wait_until(leat::now() + kAnswer)) {
      return late_operation(operation, -1, {}, options().deadline);
    }
  }
  return late_operation(operation, question->peer, question->missing, options().deadline);
}

MpiTransport::MpiTransport(std::shared_ptr<MpiWorld> world, std::shared_ptr<Group> group)
    : world_(std::move(world)), group_(std::move(group)) {
  world_->recorder(MpiTransport::world_rank()).joined(group_->context(), group_->members());
}

MpiTransport::~MpiTransport() { leave(); }

void MpiTransport::begin(Operation& operation) noexcept {
  operation.state = group_.get();
  if (world_->add(operation, world_rank(), context())) {
    world_->engine().submit(operation);
  } else {
    world_->finish(operation, &world_->failure());
  }
}

std::shared_ptr<Transport> MpiTransport::subset(std::uint64_t context,
                                                std::span<const int> members) {
  std::vector<int> of_world;
  for (const int one : members) of_world.push_back(group_->world_rank(one));
  const auto own = std::find(members.begin(), members.end(), rank());
  auto group = std::make_shared<Group>(world_->engine(), context, std::move(of_world),
                                       static_cast<int>(own - members.begin()));
  return std::make_shared<MpiTransport>(world_, std::move(group));
}

void MpiTransport::post(int to, std::span<const Notice> notices) {
  if (!world_->is_dead()) world_->engine().post(*group_, to, notices);
}

void MpiTransport::listen(Channel<Notice> notices) { world_->engine().listen(group_, notices); }

void MpiTransport::leave() noexcept {
  world_->recorder(MpiTransport::world_rank()).left(group_->context());
  if (!left_.exchange(true) && !world_->is_dead()) world_->engine().leave(group_);
}

}  // namespace leat::comm::mpi
