#include "leat/gpu/host/crew.h"

#include <chrono>
#include <utility>

#include "leat/csp/base/start_thread.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/identity.h"

namespace leat::gpu::host {
namespace {

constexpr int kOwnWorkers = 3;                                    // one for each engine
constexpr Duration kNextThread = std::chrono::milliseconds(100);  // until it is tried again

bool end_on_thread(Crew* crew) noexcept {
  try {
    start_thread("the thread that ends " + crew->engines->device(), [crew] {
      delete crew;
    }).detach();
    return true;
  } catch (...) {
    return false;
  }
}

// A fiber of the crew's own scheduler cannot join itself, nor can a kernel of any device, whose
// closure held the last handle, wait for streams that may wait for its own: another thread does. If
// none can be started, a fiber ends the crew if it is not the crew's own; otherwise that fiber
// tries again until there is a thread, while the crew's workers are idle.
void end_crew(Crew* crew) noexcept {
  const bool is_own = crew->own && crew->own->core().get() == calling_scheduler();
  if (StreamFiber::current() == nullptr && !is_own) {
    delete crew;
  } else if (!end_on_thread(crew)) {
    try {
      go([crew, is_own] {
        const Shield shield;
        if (!is_own) {
          delete crew;
          return;
        }
        while (!end_on_thread(crew)) sleep_for(kNextThread);
      });
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for that either: the threads stay
    }
  }
}

}  // namespace

Crew::Crew(const std::string& device, const HostModel& model)
    : own(on_fiber() ? nullptr
                     : std::make_unique<Scheduler>(SchedulerOptions{.workers = kOwnWorkers})),
      group(own ? std::make_unique<TaskGroup>(*own) : std::make_unique<TaskGroup>()),
      engines(std::make_shared<Engines>(device, model,
                                        own ? *own->core() : current_scheduler("open"))) {}

Crew::~Crew() {
  const Shield shield;
  const ExpectWakeFrom ending(engines->scheduler());
  try {
    group->wait();
  } catch (...) {
    // Stream fibers do not throw; the device's error reports the end of their scheduler.
  }
  group.reset();
  own.reset();
  while (leaked) leaked = std::move(leaked->next);  // a loop, so that destructors do not nest
}

std::shared_ptr<Crew> make_crew(const std::string& device, const HostModel& model) {
  return {new Crew(device, model), &end_crew};
}

}  // namespace leat::gpu::host
