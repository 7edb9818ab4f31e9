#include "leat/feeder/stages/fill_meter.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace leat::feeder {
namespace {

// What a batch waits at least where a disk is to fetch something. Interrupts take less.
constexpr Duration kWait = std::chrono::microseconds(50);
constexpr int kMostNeeded = 256;
constexpr std::uint64_t kBlock = 512;  // the unit of ru_inblock, whatever the disk's is

// The CPU time that the calling thread has used so far.
Duration cpu_time() noexcept {
  timespec time{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return Duration::zero();
  return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
}

}  // namespace

void FillMeter::begin() noexcept {
  cost_ = {};  // after a fill that has failed
  time_ = Duration::zero();
  resume();
}

// Unsigned sums wrap around below 0, and back.
void FillMeter::add(int sign) noexcept {
  if (is_virtual_) return;
  if (is_counting()) {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    const auto factor = static_cast<std::uint64_t>(sign);
    cost_.cold_bytes += factor * kBlock * static_cast<std::uint64_t>(usage.ru_inblock);
    cost_.major_faults += factor * static_cast<std::uint64_t>(usage.ru_majflt);
  }
  time_ += sign * now().time_since_epoch();
  cost_.cpu += sign * cpu_time();
}

ReadCost FillMeter::end() noexcept {
  pause();
  if (is_counting()) decide(cost_.cold_bytes == 0 && cost_.major_faults == 0);
  if (!is_cold_) {
    hot_in_a_row_ = std::min(hot_in_a_row_ + 1, kMostNeeded);
    is_in_doubt_ = time_ - cost_.cpu > kWait;
  }
  return cost_;
}

void FillMeter::decide(bool is_hot) noexcept {
  if (is_cold_) {
    hot_in_a_row_ = is_hot ? hot_in_a_row_ + 1 : 0;
    if (hot_in_a_row_ < needed_) return;
    is_cold_ = false;
    hot_in_a_row_ = 0;
  } else if (!is_hot) {
    is_cold_ = true;
    needed_ = hot_in_a_row_ < kMostNeeded ? std::min(needed_ * 2, kMostNeeded) : 1;
    hot_in_a_row_ = 0;
  }
}

}  // namespace leat::feeder
