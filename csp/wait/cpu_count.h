// How many CPUs this process may use, and which one runs this thread.
#pragma once

namespace leat {

/// CPUs in the process's affinity mask, bounded by its cgroup's CPU quota (rounded up). At least 1.
[[nodiscard]] int usable_cpus() noexcept;

/// What current_cpu() returns where it is not known, and what it never returns otherwise.
inline constexpr int kNoCpu = -1;

/// The CPU that runs the calling thread, which may be another one at once. A few nanoseconds.
[[nodiscard]] int current_cpu() noexcept;

/// Whether spinning before the last sleep would have been in vain: the sleeper would have kept its
/// CPU from the thread that then woke it. Where more threads want to run than there are CPUs, two
/// threads that wait for each other would spin in turns. `slept_on` is the CPU on which the sleeper
/// went to sleep; `woken_from` is the waker's, or kNoCpu.
[[nodiscard]] constexpr bool shares_its_cpu(int slept_on, int woken_from) noexcept {
  return woken_from != kNoCpu && slept_on == woken_from;
}

}  // namespace leat
