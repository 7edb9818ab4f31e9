// comm::open("mpi").
#include <mpi.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/mpi_transport.h"
#include "leat/comm/transports/mpi_hook.h"
#include "leat/csp/error.h"
#include "leat/csp/wait/home_process.h"

namespace leat::comm::mpi {
namespace {

constexpr std::uint64_t kFirstContext = 0;

// Never destroyed; see engine.h.
std::atomic<Engine*> g_engine{nullptr};
std::atomic<bool> g_opened{false};

// A child process has MPI's memory, but none of its threads.
HomeProcess& home() {
  static HomeProcess process;
  return process;
}

void end_at_exit() {
  if (home().is_here()) g_engine.load()->end();
}

// A program that initialised MPI itself finalises it before it exits: at the beginning of
// MPI_Finalize, MPI deletes what is attached to MPI_COMM_SELF.
int end_at_finalize(MPI_Comm, int, void*, void*) {
  end_at_exit();
  return MPI_SUCCESS;
}

}  // namespace

std::shared_ptr<Transport> open_world(const OpenOptions& options) {
  if (g_opened.exchange(true)) {
    throw Error(
        "leat: comm::open(\"mpi\"): a process opens it once; use split() and duplicate() for more "
        "communicators");
  }
  static_cast<void>(home());
  auto* const engine = new Engine(options);
  engine->start();
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
  std::vector<int> all(static_cast<std::size_t>(engine->size()));
  std::iota(all.begin(), all.end(), 0);
  auto group = std::make_shared<Group>(*engine, kFirstContext, std::move(all), engine->rank());
  return std::make_shared<MpiTransport>(std::move(world), std::move(group));
}

}  // namespace leat::comm::mpi

std::shared_ptr<leat::comm::Transport>* leat_comm_mpi_open(const leat::comm::OpenOptions* options) {
  auto transport = leat::comm::mpi::open_world(*options);
  return new std::shared_ptr<leat::comm::Transport>(std::move(transport));
}
