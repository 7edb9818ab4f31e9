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

template <class Enum>
void check_enum(Enum value, Enum last, const char* name) {
  const auto number = static_cast<unsigned>(value);
  if (number <= static_cast<unsigned>(last)) return;
  refuse(std::string(name) + " is " + std::to_string(number) + ", which is none of its values");
}

void check_least(std::size_t most, std::size_t start, const char* name, const char* of) {
  if (most >= start) return;
  refuse(std::string(name) + " is " + std::to_string(most) + ", less than " + of + ", " +
         std::to_string(start) + ", with which autotune begins");
}

void check_budget(const FailureBudget& budget, const char* name) {
  if (budget.rate >= 0 && budget.rate <= 1) return;  // false for NaN
  refuse(std::string(name) + ".rate is " + std::to_string(budget.rate) +
         "; it must be from 0 to 1");
}

// What a reader does sample by sample is not to be had.
void check_sourced(const PrefetcherOptions& options, const BatchSource& source) {
  const auto refuse_with = [&](bool is_set, const char* name) {
    if (!is_set) return;
    refuse(std::string(name) + " does not go with \"" + std::string(source.name()) +
           "\", whose batches are made as a whole");
  };
  refuse_with(options.packing.has_value(), "packing");
  refuse_with(options.pad_to != PadTo::kField, "pad_to");
  refuse_with(options.last_batch == LastBatch::kPad, "a last_batch that is padded");
  refuse_with(options.check_slots != CheckSlots::kNo, "check_slots");
  refuse_with(options.autotune.has_value(), "autotune");
  refuse_with(!options.device_transform.fields.empty(), "device_transform");
  refuse_with(source.is_bound() && options.order != Order::kDrawn, "an order that is not drawn");
  refuse_with(source.is_bound() && options.delivery != Delivery::kInOrder, "delivery as completed");
}

}  // namespace

std::size_t pinned_for(std::size_t workers, std::size_t prefetch_depth, std::size_t devices) {
  const std::size_t of_workers = (workers + devices - 1) / devices;
  return std::max<std::size_t>(of_workers + prefetch_depth, 2);
}

PrefetcherOptions checked(PrefetcherOptions options, std::size_t devices,
                          const BatchSource* source) {
  if (devices == 0) throw std::invalid_argument("leat: a prefetcher needs at least one device");
  check_range(options.batch_size, 1, std::numeric_limits<std::size_t>::max(), "batch_size");
  check_range(options.prefetch_depth, 1, kMostSlots, "prefetch_depth");
  check_range(options.max_leases, 1, kMostSlots, "max_leases");
  check_range(options.workers, 1, kMostSlots, "workers");
  check_range(options.pinned_slots, 0, kMostSlots, "pinned_slots");
  check_enum(options.order, Order::kDrawn, "order");
  check_enum(options.last_batch, LastBatch::kWrap, "last_batch");
  check_enum(options.delivery, Delivery::kAsCompleted, "delivery");
  check_enum(options.sharing, Sharing::kDynamic, "sharing");
  check_enum(options.check_slots, CheckSlots::kReadOnly, "check_slots");
  check_enum(options.pad_to, PadTo::kBatch, "pad_to");
  check_budget(options.read_failures, "read_failures");
  check_budget(options.transform_failures, "transform_failures");
  if (options.pinned_slots == 0) {
    options.pinned_slots = pinned_for(options.workers, options.prefetch_depth, devices);
  }
  if (options.autotune.has_value()) {
    const Autotune& tune = *options.autotune;
    check_range(tune.max_workers, 1, kMostSlots, "autotune.max_workers");
    check_range(tune.max_prefetch_depth, 1, kMostSlots, "autotune.max_prefetch_depth");
    check_range(tune.every, 1, std::numeric_limits<std::size_t>::max(), "autotune.every");
    check_least(tune.max_workers, options.workers, "autotune.max_workers", "workers");
    check_least(tune.max_prefetch_depth, options.prefetch_depth, "autotune.max_prefetch_depth",
                "prefetch_depth");
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
    refuse("sharing is dynamic, which works within one process only, and " +
           std::to_string(devices) + (devices == 1 ? " device is" : " devices are") +
           " given: leave world_size at 0; it is " + std::to_string(options.world_size));
  }
  if (options.packing.has_value() && options.last_batch == LastBatch::kWrap) {
    refuse("packing and a last_batch that wraps do not go together; take another last_batch");
  }
  if (options.packing.has_value() && options.pad_to != PadTo::kField) {
    refuse("packing and a pad_to of batch do not go together: packed samples have no padding");
  }
  if (options.device_transform.fields.empty() != !options.device_transform.function) {
    refuse("device_transform needs both fields and a function");
  }
  if (source != nullptr) check_sourced(options, *source);
  if (options.order == Order::kDrawn) {
    if (source == nullptr) refuse("order is drawn, which only batch sources have");
    if (options.batch_size != 1 || options.world_size != 1 ||
        options.last_batch != LastBatch::kPartial) {
      refuse("order is drawn: a batch_size of 1, one device and a partial last_batch are needed");
    }
    options.read_across_epochs = false;  // the caller draws once it has begun the epoch
  }
  return options;
}

void check_cap(std::size_t cap, std::size_t slots, std::size_t slot_bytes, std::size_t devices,
               std::size_t checks, const char* kind, const char* name) {
  const double sum =
      (static_cast<double>(slots) * static_cast<double>(slot_bytes) + static_cast<double>(checks)) *
      static_cast<double>(devices);
  constexpr double kMost = 0x1p62;  // more than any memory; sums up to it do not overflow
  const double most = cap == 0 ? kMost : static_cast<double>(cap);
  if (sum <= std::min(most, kMost)) return;
  const std::string times =
      devices > 1 ? " for each of " + std::to_string(devices) + " devices" : std::string();
  // Two sums that look alike are told to the byte.
  const bool look_alike = bytes_text(sum) == bytes_text(most);
  const auto told = [&](double bytes) {
    return look_alike ? std::to_string(static_cast<std::uint64_t>(bytes)) + " bytes"
                      : bytes_text(bytes);
  };
  refuse(std::to_string(slots) + " " + kind + " slots of " + told(static_cast<double>(slot_bytes)) +
         (checks > 0 ? " and " + told(static_cast<double>(checks)) + " for check_slots" : "") +
         times + " are " + told(sum) + ", more than " +
         (most < kMost ? std::string(name) : "any memory has") + ", " +
         told(std::min(most, kMost)) + ": take a smaller batch_size or fewer slots");
}

}  // namespace leat::feeder
