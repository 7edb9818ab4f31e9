#include "leat/feeder/prefetcher.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/home_process.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait/identity.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/live/text.h"
#include "leat/feeder/live/view.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/slots/copy.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stages/check_options.h"
#include "leat/feeder/stages/check_resume.h"
#include "leat/feeder/stages/consumer.h"
#include "leat/feeder/stages/stages.h"
#include "leat/feeder/state.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats/figures.h"
#include "leat/gpu/backend/backend.h"

namespace leat::feeder {
namespace {

BatchPlan plan_of(const Dataset& dataset, const PrefetcherOptions& options) {
  return {options.packing.has_value()      ? packed_elements(dataset)
          : options.order == Order::kDrawn ? kMostDraws
                                           : dataset.size(),
          options.batch_size, options.sharing == Sharing::kDynamic ? 1 : options.world_size,
          options.last_batch};
}

// Returns the most rows that one rank's batch can have. A batch larger than the dataset needs no
// more rows than the dataset, unless it is padded or wrapped.
std::size_t most_rows(const BatchPlan& plan, std::size_t rank) {
  const bool fills_up =
      plan.last_batch() == LastBatch::kPad || plan.last_batch() == LastBatch::kWrap;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(
      plan.rows(rank), fills_up ? plan.rows(rank) : std::max<std::uint64_t>(plan.samples(), 1)));
  return std::max<std::size_t>(most, 1);
}

State head_of(const Dataset& dataset, const PrefetcherOptions& options, const BatchPlan& plan,
              std::size_t devices) {
  State head{.samples = options.order == Order::kDrawn ? kMostDraws : dataset.size(),
             .dataset = dataset.digest(),
             .elements = options.packing.has_value() ? plan.samples() : 0,
             .batch_size = options.batch_size,
             .seed = options.seed,
             .order = options.order,
             .last_batch = options.last_batch,
             .rank = options.rank,
             .ranks = devices,
             .world_size = options.world_size,
             .epochs = {}};
  if (options.resume.has_value()) head.epochs = epochs_to_resume(dataset, head, *options.resume);
  return head;
}

double share_of(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::size_t>(whole, 1));
}

// Returns whether the MemoryCaps leave room for `bytes` bytes, `times` times.
bool has_room(const gpu::MemoryFigures& memory, std::size_t bytes, std::size_t times) {
  if (memory.cap == 0) return true;
  return memory.used <= memory.cap && bytes <= (memory.cap - memory.used) / times;
}

std::vector<std::uint64_t> epochs_of(const State& state) {
  std::vector<std::uint64_t> epochs(state.epochs.size());
  std::ranges::transform(state.epochs, epochs.begin(), &EpochReleases::epoch);
  return epochs;
}

// Returns an existing scheduler, or null: on a fiber its own scheduler, on a plain thread the
// scheduler of a device. A second scheduler would spend more time passing values between threads
// than working.
std::shared_ptr<SchedulerCore> shared_scheduler(const std::vector<gpu::Device>& devices) {
  if (on_fiber()) return share_current_scheduler("Prefetcher");
  for (const gpu::Device& device : devices) {
    if (auto scheduler = device.backend()->own_scheduler()) return scheduler;
  }
  return nullptr;
}

}  // namespace

// Members are in the order of construction. So the stages end first, and the scheduler that they
// run on ends last.
struct Prefetcher::Parts {
  Parts(const Dataset& dataset, const std::vector<gpu::Device>& devices,
        const PrefetcherOptions& given)
      : data(dataset),
        options(checked(given, devices.size(), dataset.as_batch_source())),
        plan(plan_of(dataset, options)),
        head(head_of(dataset, options, plan, devices.size())),
        log(std::make_shared<ReleaseLog>(plan, head, options.sharing == Sharing::kDynamic)),
        shared(shared_scheduler(devices)),
        own(shared ? nullptr : std::make_unique<Scheduler>()),
        scheduler(own ? own->core() : shared),
        rings(make_rings(dataset, devices)),
        stages(dataset, options, plan, *log, rings,
               {.workers = options.workers,
                .prefetch_depth = options.prefetch_depth,
                .pinned_slots = options.pinned_slots},
               epochs_of(head)),
        group(std::make_unique<TaskGroup>(scheduler)),
        forwarders(std::make_unique<TaskGroup>(scheduler)) {
    for (std::size_t i = 0; i < rings.size(); ++i) {
      auto consumer = std::make_unique<Consumer>(
          Consumer::Params{.ring = rings[i],
                           .stages = &stages,
                           .forwarders = forwarders.get(),
                           .scheduler = scheduler.get(),
                           .rank = options.rank + i,
                           .batches = plan.batches(),
                           .max_leases = options.max_leases,
                           .first_epoch = head.next_epoch(),
                           .is_shared = options.sharing == Sharing::kDynamic});
      feeds.push_back(std::unique_ptr<Feed>(new Feed(std::move(consumer))));
    }
  }

  [[nodiscard]] std::vector<std::shared_ptr<SlotRing>> make_rings(
      const Dataset& dataset, const std::vector<gpu::Device>& devices) {
    const bool is_shared = options.sharing == Sharing::kDynamic;
    const StatsOptions stats{.workers = options.workers,
                             .devices = devices.size(),
                             .prefetch_depth = options.prefetch_depth,
                             .device_slots = options.max_leases + options.prefetch_depth - 1,
                             .pinned_slots = options.pinned_slots,
                             .cpus = cpus_of(dataset),
                             .sample_every = options.sample_every,
                             .crosses_epochs = plan.batches() == 1};
    std::vector<BatchLayout> layouts(dataset.as_batch_source() != nullptr ? devices.size() : 0);
    for (std::size_t i = layouts.size(); i < devices.size(); ++i) {
      const std::size_t rows = most_rows(plan, is_shared ? 0 : options.rank + i);
      const std::size_t elements = options.packing.has_value() ? rows : 0;
      const std::size_t most = options.packing.has_value() ? options.packing->most_samples : 0;
      layouts.emplace_back(dataset.name(), dataset.fields(), options.device_transform.fields,
                           most == 0 ? rows : std::min(most, rows), elements,
                           options.pad_to == PadTo::kBatch);
    }
    const RingSize size = ring_size(layouts[0], devices);  // the first rank's slots are the largest
    check_cap(options.max_pinned_bytes, size.pinned_slots, layouts[0].staged_bytes(),
              devices.size(), checks_bytes(layouts[0], size.device_slots), "pinned",
              "max_pinned_bytes");
    check_cap(options.max_device_bytes, size.device_slots, layouts[0].bytes(), 1, 0, "device",
              "max_device_bytes");
    std::vector<std::shared_ptr<SlotRing>> made;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      made.push_back(std::make_shared<SlotRing>(
          devices[i], LocalRank{.index = i, .of_world = options.rank + i}, std::move(layouts[i]),
          size, stats, options.check_slots, options.trace.get(), log, *scheduler));
    }
    return made;
  }

  // With autotune, the rings have room for its maxima, as far as the options' and the devices' caps
  // on memory allow.
  [[nodiscard]] RingSize ring_size(const BatchLayout& layout,
                                   const std::vector<gpu::Device>& devices) {
    const auto size_for = [&](std::size_t workers, std::size_t depth) {
      const std::size_t grown = pinned_for(workers, depth, devices.size());
      return RingSize{.pinned_slots = std::max(options.pinned_slots, grown),
                      .device_slots = options.max_leases + depth - 1,
                      .leases = options.max_leases};
    };
    if (!options.autotune.has_value()) {
      return {.pinned_slots = options.pinned_slots,
              .device_slots = options.max_leases + options.prefetch_depth - 1,
              .leases = options.max_leases};
    }
    Autotune& tune = *options.autotune;
    const auto fits = [&](const RingSize& size) {
      const std::size_t pinned =
          size.pinned_slots * layout.staged_bytes() + checks_bytes(layout, size.device_slots);
      const std::size_t on_device = size.device_slots * layout.bytes();
      const std::size_t all_pinned = pinned * devices.size();
      return (options.max_pinned_bytes == 0 || all_pinned <= options.max_pinned_bytes) &&
             (options.max_device_bytes == 0 || on_device <= options.max_device_bytes) &&
             std::ranges::all_of(devices, [&](const gpu::Device& one) {
               const gpu::MemoryUse memory = one.memory();
               const auto times = static_cast<std::size_t>(std::ranges::count(devices, one));
               return has_room(memory.pinned, pinned, times) &&
                      has_room(memory.device, on_device, times);
             });
    };
    RingSize size = size_for(tune.max_workers, tune.max_prefetch_depth);
    while (!fits(size)) {
      if (tune.max_prefetch_depth > options.prefetch_depth) {
        --tune.max_prefetch_depth;
      } else if (tune.max_workers > options.workers) {
        --tune.max_workers;
      } else {
        break;  // the options themselves do not fit: check_cap() or the allocation throws
      }
      size = size_for(tune.max_workers, tune.max_prefetch_depth);
    }
    return size;
  }

  // Returns the pinned memory of one device's slot checks.
  [[nodiscard]] std::size_t checks_bytes(const BatchLayout& layout,
                                         std::size_t device_slots) const {
    if (options.check_slots == CheckSlots::kNo) return 0;
    return SlotChecks::pinned_bytes(layout, device_slots);
  }

  // Returns how many CPUs readers may compute on. Reads that may block can run on threads of their
  // own. Other reads run on the scheduler's workers.
  [[nodiscard]] std::size_t cpus_of(const Dataset& dataset) const {
    const int threads =
        dataset.blocking() != Blocking::kNever ? usable_cpus() : workers_of(*scheduler);
    return static_cast<std::size_t>(std::min(threads, usable_cpus()));
  }

  const HomeProcess home;
  const Dataset& data;
  PrefetcherOptions options;  // final once the rings are made
  const BatchPlan plan;
  const State head;
  const std::shared_ptr<ReleaseLog> log;
  const std::shared_ptr<SchedulerCore> shared;
  const std::unique_ptr<Scheduler> own;            // null if `shared` is set
  const std::shared_ptr<SchedulerCore> scheduler;  // the stages': `shared` or own's
  const std::vector<std::shared_ptr<SlotRing>> rings;
  // After the stages, though leases may keep the rings: a device's threads end with its streams.
  struct StreamsEnd {
    ~StreamsEnd() {
      for (const auto& ring : rings) ring->end_streams();
    }
    const std::vector<std::shared_ptr<SlotRing>>& rings;
  };
  const StreamsEnd streams_end{rings};
  Stages stages;
  std::vector<std::unique_ptr<Feed>> feeds;
  const std::unique_ptr<TaskGroup> group;
  // A group of their own: a failure stops `group`, but batches staged before it are still
  // forwarded.
  const std::unique_ptr<TaskGroup> forwarders;
  std::unique_ptr<LiveView> live;  // null: nothing is shown
};

Prefetcher::Prefetcher(const Dataset& dataset, const gpu::Device& device,
                       const PrefetcherOptions& options)
    : Prefetcher(dataset, std::vector<gpu::Device>{device}, options) {}

Prefetcher::Prefetcher(const Dataset& dataset, const std::vector<gpu::Device>& devices,
                       const PrefetcherOptions& options)
    : parts_(std::make_unique<Parts>(dataset, devices, options)) {
  if (options.live.has_value()) {
    parts_->live = std::make_unique<LiveView>(
        options.live->fd,
        live_text(*options.live, {.rings = parts_->rings,
                                  .batches_per_epoch = batches_per_epoch(),
                                  .is_shared = options.sharing == Sharing::kDynamic}));
  }
  parts_->stages.launch(*parts_->group);
}

Prefetcher::~Prefetcher() {
  if (!parts_->home.is_here()) static_cast<void>(parts_.release());  // the threads are gone
}

void Prefetcher::stop() noexcept {
  if (!parts_->home.is_here()) return;
  parts_->stages.finish(std::make_exception_ptr(Error("leat: the prefetcher was stopped")));
  for (const auto& feed : parts_->feeds) feed->consumer_->stop();
  parts_->group->stop();
}

Feed& Prefetcher::rank(std::size_t i) {
  if (i < parts_->feeds.size()) return *parts_->feeds[i];
  throw std::out_of_range("leat: this prefetcher has " + std::to_string(parts_->feeds.size()) +
                          " ranks of its own; there is no number " + std::to_string(i));
}

std::size_t Prefetcher::ranks() const noexcept { return parts_->feeds.size(); }

Feed& Prefetcher::only() const {
  if (parts_->feeds.size() == 1) return *parts_->feeds[0];
  throw std::logic_error("leat: this prefetcher feeds " + std::to_string(parts_->feeds.size()) +
                         " devices; say which: prefetcher.rank(i)");
}

Epoch Prefetcher::epoch(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return only().epoch(epoch, stream);
}
Epoch Prefetcher::epoch(std::uint64_t epoch) { return only().epoch(epoch); }
Receiver<Lease> Prefetcher::receiver(std::uint64_t epoch, const gpu::StreamRef& stream) {
  return only().receiver(epoch, stream);
}
Receiver<Lease> Prefetcher::receiver(std::uint64_t epoch) { return only().receiver(epoch); }
std::optional<Lease> Prefetcher::next() { return only().next(); }
void Prefetcher::start(std::uint64_t epoch) { only().start(epoch); }
ChannelStatus Prefetcher::next_until(std::optional<Lease>& lease, TimePoint deadline) {
  return only().next_until(lease, deadline);
}
ChannelStatus Prefetcher::next_until(std::optional<Lease>& lease, TimePoint deadline,
                                     const gpu::StreamRef& stream) {
  return only().next_until(lease, deadline, stream);
}
Stats Prefetcher::stats() const { return only().stats(); }
void Prefetcher::reset_stats() { only().reset_stats(); }

std::string Prefetcher::report() const {
  std::string text;
  std::size_t pinned = 0;
  for (const auto& feed : parts_->feeds) {
    if (parts_->feeds.size() > 1) {
      text += "rank " + std::to_string(feed->rank()) + " on " + feed->device().name() + "\n";
    }
    const Stats stats = feed->stats();
    text += stats.table();
    if (stats.is_measured() && stats.t_x > 0) {
      text += "  " + count_text(stats.samples_per_second, "samples/s") + ", copies at " +
              bytes_text(stats.batch_bytes / stats.t_x) + "/s";
      if (stats.t_read_cpu > 0) {
        text +=
            ", reading computes " + number_text(stats.read_cpu_per_gb()) + " core-seconds per GB";
      }
      text += "\n";
    }
  }
  const SlotRing& first = *parts_->rings[0];
  gpu::PagePlacement pages{.node_known = true};
  for (const auto& ring : parts_->rings) {
    pinned +=
        ring->pinned_bytes() + parts_->checks_bytes(ring->layout, ring->device_slots().size());
    const gpu::PagePlacement placed = ring->placement();
    pages.bytes += placed.bytes;
    pages.huge_bytes += placed.huge_bytes;
    pages.node_bytes += placed.node_bytes;
    pages.node_known = pages.node_known && placed.node_known;
    pages.numa_node = std::max(pages.numa_node, placed.numa_node);
  }
  const auto of_cap = [](std::size_t bytes, std::size_t cap) {
    return bytes_text(static_cast<double>(bytes)) +
           (cap == 0 ? "" : " of at most " + bytes_text(static_cast<double>(cap)));
  };
  text +=
      "  pinned memory " + of_cap(pinned, parts_->options.max_pinned_bytes) + ", device memory " +
      of_cap(first.device_bytes(), parts_->options.max_device_bytes) +
      (parts_->rings.size() > 1 ? " each\n" : "\n") + "  pinned slots: " +
      (pages.bytes == 0 ? std::string("shared memory")
                        : percent_text(share_of(pages.huge_bytes, pages.bytes)) + " in huge pages");
  if (pages.numa_node >= 0) {
    const double part = share_of(pages.node_bytes, pages.bytes);
    text += ", " + (pages.node_known ? percent_text(part) : std::string("?")) +
            " on the NUMA node of the device";
  }
  const Stats stats = parts_->feeds[0]->stats();
  text += std::string(", filled by ") +
          to_string(stats.past_cache_bytes > 0 ? fastest_stores() : Stores::kCached) + "\n";
  if (stats.failed_samples > 0) {
    text += "  " + std::to_string(stats.failed_samples) + " samples failed and were left out\n";
  }
  if (!stats.decisions.empty()) {
    const Decision& last = stats.decisions.back();
    text += "  autotune: " + std::to_string(stats.decided) + " changes, the last at batch " +
            std::to_string(last.batch) + ": " + last.what + " from " + std::to_string(last.from) +
            " to " + std::to_string(last.to) + "; " + last.why + "\n";
  }
  return text;
}

std::uint64_t Prefetcher::batches_per_epoch() const noexcept { return parts_->plan.batches(); }

std::string Prefetcher::state() const { return parts_->log->state().text(); }

std::string Prefetcher::state(std::span<const Receipt* const> receipts) const {
  return parts_->log->state(receipts).text();
}

void Prefetcher::check_resume(std::string_view state) const {
  static_cast<void>(epochs_to_resume(parts_->data, parts_->head, state));
}

std::string Prefetcher::stages() const {
  std::vector<FiberReport> fibers = parts_->group->fibers();
  std::ranges::move(parts_->forwarders->fibers(), std::back_inserter(fibers));
  return parts_->stages.text_of(fibers);
}

std::vector<FailedSample> Prefetcher::failed_samples() const {
  return parts_->stages.failures.list();
}

}  // namespace leat::feeder
