#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/explore/simulation.h"

namespace leat {

int SimulatedThread::start(UniqueFunction<void()> body) {
  Simulation* const simulation = Simulation::current();
  LEAT_ASSERT(simulation != nullptr, "SimulatedThread: only while an exploration runs");
  const int id = simulation->start(std::move(body));
  simulation->sched_point();
  return id;
}

void SimulatedThread::join() noexcept {
  const int id = std::exchange(id_, kNone);
  if (Simulation* const simulation = Simulation::current()) simulation->join(id);
}

void SimulatedThread::wait_until_it_waits() noexcept {
  if (Simulation* const simulation = Simulation::current()) simulation->wait_until_asleep(id_);
}

}  // namespace leat
