#include "leat/feeder/stages/autotuner.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace leat::feeder {
namespace {

// A decision needs this many sampled steps.
constexpr std::uint64_t kEnoughSteps = 8;
// A consumer that waits less than this share of the step is well fed.
constexpr double kStarved = 0.03;
// A change must be predicted to gain this share of the step.
constexpr double kWorthwhile = 0.02;
// A worker is taken away if the remaining ones would be busy for less than this share of the step.
constexpr double kIdle = 0.8;

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", 100 * share);
  return text.data();
}

}  // namespace

Autotuner::Autotuner(const Autotune& limits, const Active& active, std::size_t max_leases,
                     std::vector<std::shared_ptr<SlotRing>> rings, Channel<PinnedSlot*> free_pinned)
    : limits_(limits),
      max_leases_(max_leases),
      rings_(std::move(rings)),
      free_pinned_(std::move(free_pinned)),
      permits_(static_cast<std::int64_t>(active.workers)),
      start_(active),
      active_(active),
      pinned_slots_(active.pinned_slots),
      spare_device_(rings_.size()),
      windows_(rings_.size()),
      spare_pinned_(rings_.size()),
      owed_(rings_.size()) {
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const auto& pinned = rings_[i]->pinned();
    for (std::size_t s = 0; s < pinned.size(); ++s) {
      if (s >= active.pinned_slots) {
        spare_pinned_[i].push_back(pinned[s].get());
      } else {
        static_cast<void>(free_pinned_.try_send(pinned[s].get()));
      }
    }
    spare_pinned_[i].reserve(pinned.size());
    const auto& device = rings_[i]->device_slots();
    std::optional<DeviceSlot*> slot;
    for (std::size_t s = device_slots(active.prefetch_depth); s < device.size(); ++s) {
      static_cast<void>(rings_[i]->free_device.try_recv(slot));  // the stages do not run yet
      spare_device_[i].push_back(*slot);
    }
  }
  set_shape();
}

void Autotuner::staged() {
  if (staged_.fetch_add(1, std::memory_order_relaxed) % limits_.every != limits_.every - 1) return;
  time_to_look_.ring();
}

void Autotuner::run() {
  for (;;) {
    time_to_look_.wait();
    look();
  }
}

void Autotuner::look() {
  // The figures of the rank that waits most.
  std::optional<Stats> worst;
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const Stats stats = rings_[i]->stats.window(windows_[i], kEnoughSteps);
    if (stats.sampled_steps < kEnoughSteps || !stats.is_measured()) continue;
    if (!worst || stats.consumer.starved > worst->consumer.starved) worst = stats;
  }
  if (!worst.has_value()) return;
  const Stats& stats = *worst;

  if (stats.consumer.starved < kStarved) {
    const double read = stats.t_read * static_cast<double>(stats.devices);
    const auto fewer = static_cast<double>(active_.workers - 1);
    if (active_.workers > 1 && read <= kIdle * fewer * stats.t_step) {
      set_workers(active_.workers - 1, "reading takes " + percent(stats.reader.busy) +
                                           " of the step with " + std::to_string(active_.workers) +
                                           " workers, and nobody waits");
    }
    return;
  }
  const std::string waits =
      "the consumer waits for " + percent(stats.consumer.starved) + " of the step; expected: ";
  const bool more_workers = active_.workers < limits_.max_workers;
  const bool deeper = active_.prefetch_depth < limits_.max_prefetch_depth;
  const Prediction by_worker =
      stats.what_if({.workers = active_.workers + 1, .pinned_slots = active_.pinned_slots + 1});
  const Prediction by_depth =
      stats.what_if({.device_slots = device_slots(active_.prefetch_depth + 1),
                     .pinned_slots = active_.pinned_slots + 1});
  const double worker_gain = more_workers ? by_worker.gain : 0;
  const double depth_gain = deeper ? by_depth.gain : 0;
  const std::string expected = percent(std::max(worker_gain, depth_gain)) + " faster";
  if (worker_gain >= kWorthwhile && worker_gain >= depth_gain) {
    set_workers(active_.workers + 1, waits + expected);
  } else if (depth_gain >= kWorthwhile) {
    set_depth(active_.prefetch_depth + 1, waits + expected);
  } else if (deeper && stats.t_x < (1 - kStarved) * stats.t_step && stats.reader.busy < kIdle) {
    set_depth(active_.prefetch_depth + 1, waits + "less waiting, as no stage is busy all the time");
  }
}

void Autotuner::set_workers(std::size_t workers, const std::string& why) {
  note("workers", active_.workers, workers, why);
  const bool grows = workers > active_.workers;
  active_.workers = workers;
  set_pinned();
  if (grows) {
    permits_.release();
  } else {
    permits_.acquire();
  }
  set_shape();
}

void Autotuner::set_depth(std::size_t depth, const std::string& why) {
  note("prefetch_depth", active_.prefetch_depth, depth, why);
  active_.prefetch_depth = depth;
  set_pinned();
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    DeviceSlot* const slot = spare_device_[i].back();
    spare_device_[i].pop_back();
    rings_[i]->free_device.send(slot);
  }
  set_shape();
}

// A pinned slot more for each worker and each step of depth more than at the start, as far as there
// are slots. So a load that swings to and fro leaves as many slots in use as it found.
void Autotuner::set_pinned() {
  const auto more = [](std::size_t now, std::size_t then) { return now > then ? now - then : 0; };
  const std::size_t wanted = start_.pinned_slots + more(active_.workers, start_.workers) +
                             more(active_.prefetch_depth, start_.prefetch_depth);
  const std::size_t slots = std::min(wanted, rings_[0]->pinned().size());
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    if (slots < active_.pinned_slots) {
      const std::scoped_lock lock(mutex_);
      owed_[i] += active_.pinned_slots - slots;
    }
    for (std::size_t s = active_.pinned_slots; s < slots; ++s) give_pinned(i);
  }
  active_.pinned_slots = slots;
  pinned_slots_.store(slots, std::memory_order_relaxed);
}

void Autotuner::give_pinned(std::size_t ring) {
  PinnedSlot* slot = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (owed_[ring] > 0) {
      --owed_[ring];  // it was not taken back yet
      return;
    }
    slot = spare_pinned_[ring].back();
    spare_pinned_[ring].pop_back();
  }
  free_pinned_.send(slot);
}

bool Autotuner::takes_back(PinnedSlot& slot) {
  const std::scoped_lock lock(mutex_);
  if (owed_[slot.rank] == 0) return false;
  --owed_[slot.rank];
  spare_pinned_[slot.rank].push_back(&slot);
  return true;
}

void Autotuner::set_shape() {
  for (const auto& ring : rings_) {
    ring->stats.set_shape(active_.workers, active_.prefetch_depth,
                          device_slots(active_.prefetch_depth), active_.pinned_slots);
  }
}

void Autotuner::note(const char* what, std::size_t from, std::size_t to, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  ++decided_;
  if (decisions_.size() == kMostDecisions) decisions_.pop_front();
  decisions_.push_back({.batch = staged_.load(std::memory_order_relaxed),
                        .what = what,
                        .from = from,
                        .to = to,
                        .why = why});
}

void Autotuner::add_to(Stats& stats) const {
  const std::scoped_lock lock(mutex_);
  stats.decided = decided_;
  stats.decisions.assign(decisions_.begin(), decisions_.end());
}

}  // namespace leat::feeder
