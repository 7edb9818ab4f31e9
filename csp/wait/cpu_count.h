// How many CPUs this process may use, and which one runs this thread.
#pragma once

namespace leat {

/// CPUs in the process's affinity mask, bounded by its cgroup's CPU quota (rounded up). At least 1.
[[nodiscard]] int usable_cpus() noexcept;

/// What current_cpu() returns where it is not known, and what it never returns otherwise.
inline constexpr int kNoCpu = -1;

/// The CPU that runs the calling thread, which may be another one at once. A few nanoseconds.
[[nodiscard]] int current_cpu() noexcept;

}  // namespace leat
