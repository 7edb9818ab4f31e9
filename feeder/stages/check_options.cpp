#include "leat/feeder/stages/check_options.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

// The most slots of one kind. More cannot help, so a larger number is a mistake: it is refused
// before memory is allocated.
constexpr std::size_t kMostSlots = 4096;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("leat: PrefetcherOptions: " + why);
}

void check_range(std::size_t value, std::size_t least, std::size_t most, const char* name) {
  if (value >= least && value <= most) return;
  refuse(std::string(name) + " is " + std::to_string(value) + "; it must be " +
         (value < least ? "at least " + std::to_string(least) : "at most " + std::to_string(most)));
}

void check_budget(const FailureBudget& budget, const char* name) {
  if (budget.rate >= 0 && budget.rate <= 1) return;  // false for NaN
  refuse(std::string(name) + ".rate is " + std::to_string(budget.rate) +
         "; it must be from 0 to 1");
}

}  // namespace

std::size_t pinned_for(std::size_t workers, std::size_t prefetch_depth, std::size_t devices) {
  const std::size_t of_workers = (workers + devices - 1) / devices;
  return std::max<std::size_t>(of_workers + prefetch_depth, 2);
}

PrefetcherOptions checked(PrefetcherOptions options, std::size_t devices) {
  if (devices == 0) throw std::invalid_argument("leat: a prefetcher needs at least one device");
  check_range(options.batch_size, 1, std::numeric_limits<std::size_t>::max(), "batch_size");
  check_range(options.prefetch_depth, 1, kMostSlots, "prefetch_depth");
  check_range(options.max_leases, 1, kMostSlots, "max_leases");
  check_range(options.workers, 1, kMostSlots, "workers");
  check_range(options.pinned_slots, 0, kMostSlots, "pinned_slots");
  check_budget(options.read_failures, "read_failures");
  check_budget(options.transform_failures, "transform_failures");
  if (options.pinned_slots == 0) {
    options.pinned_slots = pinned_for(options.workers, options.prefetch_depth, devices);
  }
  if (options.autotune.has_value()) {
    Autotune& tune = *options.autotune;
    check_range(tune.max_workers, 1, kMostSlots, "autotune.max_workers");
    check_range(tune.max_prefetch_depth, 1, kMostSlots, "autotune.max_prefetch_depth");
    check_range(tune.every, 1, std::numeric_limits<std::size_t>::max(), "autotune.every");
    tune.max_workers = std::max(tune.max_workers, options.workers);
    tune.max_prefetch_depth = std::max(tune.max_prefetch_depth, options.prefetch_depth);
    if (options.sample_every == 0) refuse("autotune needs measurements, but sample_every is 0");
  }
  if (options.world_size == 0) {
    if (options.rank != 0) refuse("rank is given, but not world_size: how many ranks are there?");
    options.world_size = devices;
  }
  check_range(options.world_size, 1, kMostRanks, "world_size");
  if (options.rank >= options.world_size || devices > options.world_size - options.rank) {
    refuse("ranks " + std::to_string(options.rank) + " to " +
           std::to_string(options.rank + devices - 1) + " do not fit into a world_size of " +
           std::to_string(options.world_size));
  }
  if (options.sharing == Sharing::kDynamic && options.world_size != devices) {
    refuse("sharing is dynamic, which works within one process: world_size must be " +
           std::to_string(devices) + ", the devices given");
  }
  if (options.packing.has_value() && options.last_batch == LastBatch::kWrap) {
    refuse("packing and a last_batch that wraps do not go together; take another last_batch");
  }
  if (options.device_transform.fields.empty() != !options.device_transform.function) {
    refuse("device_transform needs both fields and a function");
  }
  return options;
}

void check_cap(std::size_t cap, std::size_t slots, std::size_t slot_bytes, std::size_t devices,
               const char* kind, const char* name) {
  const double sum =
      static_cast<double>(slots) * static_cast<double>(slot_bytes) * static_cast<double>(devices);
  constexpr double kMost = 0x1p62;  // more than any memory; sums up to it do not overflow
  const double most = cap == 0 ? kMost : static_cast<double>(cap);
  if (sum <= std::min(most, kMost)) return;
  const std::string times =
      devices > 1 ? " for each of " + std::to_string(devices) + " devices" : std::string();
  refuse(std::to_string(slots) + " " + kind + " slots of " +
         bytes_text(static_cast<double>(slot_bytes)) + times + " are " + bytes_text(sum) +
         ", more than " + (most < kMost ? std::string(name) : "any memory has") + ", " +
         bytes_text(std::min(most, kMost)) + ": take a smaller batch_size or fewer slots");
}

}  // namespace leat::feeder
