// The number of CPUs that this process may use, and the CPU that runs the calling thread.
#pragma once

namespace leat {

/// Returns the number of CPUs that the process may use: its affinity mask, or its cgroup's CPU
/// quota (rounded up) if that is less. At least 1. Without a readable quota, the mask alone counts.
[[nodiscard]] int usable_cpus() noexcept;

/// What current_cpu() returns if the CPU is not known. No CPU has this number.
inline constexpr int kNoCpu = -1;

/// Returns the CPU that runs the calling thread, or kNoCpu. The thread may move to another CPU at
/// any time. Takes a few nanoseconds.
[[nodiscard]] int current_cpu() noexcept;

/// Returns whether the waker ran on the CPU on which the sleeper went to sleep. Then it would have
/// been useless to spin instead: the sleeper would have kept the CPU from its waker. With more
/// threads than CPUs, two threads that wait for each other would spin in turns. `slept_on` is the
/// sleeper's CPU; `woken_from` is the waker's, or kNoCpu.
[[nodiscard]] constexpr bool shares_its_cpu(int slept_on, int woken_from) noexcept {
  return woken_from != kNoCpu && slept_on == woken_from;
}

}  // namespace leat
