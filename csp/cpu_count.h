// How many CPUs this process may use.
#pragma once

namespace leat {

/// CPUs in the process's affinity mask, bounded by its cgroup's CPU quota (rounded up). At least 1.
[[nodiscard]] int usable_cpus() noexcept;

}  // namespace leat
