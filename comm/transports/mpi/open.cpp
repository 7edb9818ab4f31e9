// comm::open("mpi"): the world of the ranks that mpirun started, and its transport.
//
// A process opens it once, because after a failure no call of MPI may be made any more, and because
// MPI cannot be initialised twice. For more communicators: split() and duplicate().
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/group.h"
#include "leat/comm/transports/mpi_hook.h"
#include "leat/comm/transports/rank_calls.h"
#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::mpi {
namespace {

// What MPI's thread needs to answer, unless it has no CPU.
constexpr Duration kAnswer = std::chrono::milliseconds(200);

class MpiWorld final : public World {
 public:
  MpiWorld(const OpenOptions& options, Engine& engine)
      : World(options, static_cast<int>(engine.everyone().size()), engine.rank(), 1),
        engine_(engine) {}
  ~MpiWorld() override {
    engine_.world_ends();
    end();
  }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }

 protected:
  void stop(const Failure& failure, bool tell) noexcept override { engine_.stop(failure, tell); }

  // MPI's thread knows. Without an answer all ranks count as having called.
  [[nodiscard]] Missing missing(const Operation& operation) override {
    const auto look = [&engine = engine_, operation] {
      Missing found;
      if (Group* const group = engine.find(operation.context)) {
        found.ranks = group->missing(operation);
        if (operation.peer >= 0) found.peer = group->world_rank(operation.peer);
      }
      return found;
    };
    if (engine_.is_here()) return look();
    struct Looked {
      Missing missing;
      Notification is_here;
    };
    const auto looked = std::make_shared<Looked>();
    engine_.call([looked, look] {
      looked->missing = look();
      looked->is_here.notify();
    });
    const OutsideWork outside;
    return looked->is_here.wait_until(leat::from_now(kAnswer)) ? looked->missing : Missing();
  }

  void ask(const Wait& asked, std::shared_ptr<Inquiry> inquiry, std::size_t question) override {
    engine_.call([&engine = engine_, asked, inquiry = std::move(inquiry), question] {
      engine.ask(asked, inquiry, question);
    });
  }

 private:
  Engine& engine_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiWorld> world, std::shared_ptr<Group> group)
      : world_(std::move(world)), group_(std::move(group)) {
    world_->recorder(MpiTransport::world_rank()).joined(group_->context(), group_->members());
    world_->engine().join(group_);
  }
  ~MpiTransport() override { MpiTransport::leave(); }

  [[nodiscard]] int rank() const noexcept override { return group_->rank(); }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  [[nodiscard]] int world_rank() const noexcept override {
    return group_->world_rank(group_->rank());
  }
  [[nodiscard]] World& world() const noexcept override { return *world_; }
  [[nodiscard]] std::uint64_t context() const noexcept override { return group_->context(); }

  void begin(Operation& operation) noexcept override {
    operation.state = group_.get();
    if (world_->add(operation, world_rank(), context())) {
      world_->engine().submit(operation);
    } else {
      world_->finish(operation, &world_->failure());
    }
  }

  [[nodiscard]] std::shared_ptr<Transport> subset(std::uint64_t context,
                                                  std::span<const int> members) override {
    std::vector<int> of_world;
    for (const int one : members) of_world.push_back(group_->world_rank(one));
    const auto own = std::find(members.begin(), members.end(), rank());
    auto group = std::make_shared<Group>(world_->engine(), context, std::move(of_world),
                                         static_cast<int>(own - members.begin()));
    return std::make_shared<MpiTransport>(world_, std::move(group));
  }

  void post(int to, std::span<const Notice> notices) override {
    if (world_->is_dead()) return;
    world_->engine().post(group_, to, notices);
  }

  void listen(Channel<Notice> notices) override {
    world_->engine().call([group = group_, notices] { group->listen(notices); });
  }

  void leave() noexcept override {
    world_->recorder(MpiTransport::world_rank()).left(group_->context());
    if (left_.exchange(true) || world_->is_dead()) return;
    world_->engine().call([group = group_] { group->leave(); });
  }

 private:
  const std::shared_ptr<MpiWorld> world_;
  const std::shared_ptr<Group> group_;
  std::atomic<bool> left_{false};
};

// ---- the process's engine

std::atomic<Engine*> g_engine{nullptr};

void end_at_exit() { g_engine.load()->end(); }

// A program that initialised MPI itself finalises it before it exits: at the beginning of
// MPI_Finalize, MPI deletes what is attached to MPI_COMM_SELF.
int end_at_finalize(MPI_Comm, int, void*, void*) {
  end_at_exit();
  return MPI_SUCCESS;
}

std::shared_ptr<Transport> open_world(const OpenOptions& options) {
  static std::atomic<bool> opened{false};
  if (opened.exchange(true)) {
    throw Error(
        "leat: comm::open(\"mpi\"): a process opens it once; use split() and duplicate() for more "
        "communicators");
  }
  Engine* engine = nullptr;
  try {
    engine = new Engine(options);  // never destroyed; see engine.h
    engine->start();
  } catch (...) {
    opened = false;  // MPI was not touched: another call may try again
    throw;
  }
  engine->wait_for_mpi();
  g_engine.store(engine);
  if (engine->wire().owns_mpi()) {
    std::atexit(&end_at_exit);
  } else {
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &end_at_finalize, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  }
  std::shared_ptr<MpiWorld> world;
  try {
    world = std::make_shared<MpiWorld>(options, *engine);
  } catch (...) {
    engine->serve(nullptr);
    throw;
  }
  engine->serve(world);
  auto group = std::make_shared<Group>(*engine, 0, engine->everyone(), engine->rank());
  return std::make_shared<MpiTransport>(std::move(world), std::move(group));
}

}  // namespace
}  // namespace leat::comm::mpi

void leat_comm_mpi_open(const leat::comm::OpenOptions& options,
                        std::shared_ptr<leat::comm::Transport>& opened) {
  opened = leat::comm::mpi::open_world(options);
}
