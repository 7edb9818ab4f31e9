// The crew runs the streams of one opened host device: the streams' fibers, and their scheduler if
// the device was opened on a plain thread.
//
// The device's streams and handles own the crew; the device's memory does not. So threads end with
// the last stream and handle, though a buffer may live on (Device::for_memory()).
#pragma once

#include <memory>
#include <string>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/host/engines.h"
#include "leat/gpu/host/memory.h"
#include "leat/gpu/host_model.h"

namespace leat::gpu::host {

/// The crew of a device. Its last owner waits until all queued work has run.
struct Crew {
  /// As make_crew().
  Crew(const std::string& device, const HostModel& model);
  /// Waits for the streams' fibers, which still run queued operations. All Streams are destroyed by
  /// then, because each owns the crew. Not on one of these fibers.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::unique_ptr<Scheduler> own;    // null if the device was opened on a fiber
  std::unique_ptr<TaskGroup> group;  // the streams' fibers; destroyed before own
  const std::shared_ptr<Engines> engines;
  std::shared_ptr<HostMemory::Block> leaked;  // freed blocks, until the streams have ended
};

/// Makes the crew of `device`: on the calling fiber's scheduler, or, on a plain thread, with one of
/// its own. The last owner may be a kernel's closure. Throws as Scheduler's constructor.
[[nodiscard]] std::shared_ptr<Crew> make_crew(const std::string& device, const HostModel& model);

}  // namespace leat::gpu::host
