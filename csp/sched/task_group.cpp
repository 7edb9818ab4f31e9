#include "leat/csp/task_group.h"

#include <stdexcept>

#include "leat/csp/sched/group_core.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/wait/park.h"

namespace leat {

TaskGroup::TaskGroup() : TaskGroup(current_scheduler("TaskGroup").shared_from_this()) {}

TaskGroup::TaskGroup(Scheduler& scheduler) : TaskGroup(scheduler.core()) {}

TaskGroup::TaskGroup(std::shared_ptr<SchedulerCore> scheduler)
    : scheduler_(std::move(scheduler)), core_(std::make_shared<GroupCore>(scheduler_)) {
  scheduler_->register_group(*core_);
}

TaskGroup::~TaskGroup() {
  if (!scheduler_->home().is_here()) return;  // its fibers never run again
  stop();
  const Shield shield;
  core_->join(ParkReason::kEnd);
  scheduler_->unregister_group(*core_);
}

void TaskGroup::launch(UniqueFunction<void()>&& body, GoOptions&& options) {
  scheduler_->launch(*core_, std::move(body), std::move(options));
}

void TaskGroup::wait() {
  scheduler_->home().require("a TaskGroup");
  try {
    count_operation(Deadline::never());
    core_->join();
  } catch (const Cancelled&) {
    stop();
    const Shield shield;
    core_->join();
    throw;
  }
  if (const std::exception_ptr error = core_->first_error()) std::rethrow_exception(error);
}

// A share is held meanwhile: a group that another fiber owns may be destroyed as soon as its last
// fiber has been cancelled.
void TaskGroup::stop() noexcept {
  const std::shared_ptr<GroupCore> hold = core_;
  hold->stop();
}

void TaskGroup::set_limit(std::size_t fibers) {
  if (fibers == 0) throw std::invalid_argument("leat: a TaskGroup's limit is at least 1 fiber");
  core_->set_limit(fibers);
}

std::stop_token TaskGroup::stop_token() const { return core_->stop_token(); }

std::vector<FiberReport> TaskGroup::fibers() const {
  scheduler_->home().require("a TaskGroup");
  return scheduler_->fibers_of(*core_);
}

}  // namespace leat
