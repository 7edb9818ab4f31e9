#include "leat/csp/base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <string>

#include "leat/csp/base/hooks.h"

namespace leat {
namespace {

// Reads cgroup v2's "<quota> <period>" in microseconds, or "max <period>". Returns 0 if there is no
// quota.
int cgroup_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period));
}

}  // namespace

int usable_cpus() noexcept {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  try {
    if (const int quota = cgroup_quota(); quota > 0) cpus = std::min(cpus, quota);
  } catch (const std::exception&) {
    // No memory to read the quota: the mask alone counts.
  }
  return std::max(cpus, 1);
}

int current_cpu() noexcept {
  if (kExploring) return kNoCpu;  // a schedule is the same wherever it is replayed
  const int cpu = sched_getcpu();
  return cpu < 0 ? kNoCpu : cpu;
}

}  // namespace leat
