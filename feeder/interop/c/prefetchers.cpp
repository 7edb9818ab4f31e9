#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/interop/c/openers.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"

namespace leat::feeder::c {
namespace {

static_assert(LEAT_ORDER_SHUFFLED == static_cast<int>(Order::kShuffled) &&
              LEAT_LAST_BATCH_WRAP == static_cast<int>(LastBatch::kWrap) &&
              LEAT_LAST_BATCH_PAD == static_cast<int>(LastBatch::kPad) &&
              LEAT_LAST_BATCH_DROP == static_cast<int>(LastBatch::kDrop) &&
              LEAT_PAD_TO_BATCH == static_cast<int>(PadTo::kBatch) &&
              LEAT_CHECK_SLOTS_READ_ONLY == static_cast<int>(CheckSlots::kReadOnly) &&
              LEAT_DELIVERY_AS_COMPLETED == static_cast<int>(Delivery::kAsCompleted));

// The sizes of the first versions of structs that grow. Later members are behind these.
constexpr std::size_t kFirstOptions = offsetof(leat_options, packed);
constexpr std::size_t kFirstStats = offsetof(leat_stats, idle_ends);

leat_options defaults() {
  const PrefetcherOptions from;
  return {.size = sizeof(leat_options),
          .batch_size = from.batch_size,
          .prefetch_depth = from.prefetch_depth,
          .max_leases = from.max_leases,
          .workers = from.workers,
          .pinned_slots = from.pinned_slots,
          .seed = from.seed,
          .order = static_cast<std::int32_t>(from.order),
          .last_batch = static_cast<std::int32_t>(from.last_batch),
          .delivery = static_cast<std::int32_t>(from.delivery),
          .reserved = 0,
          .rank = from.rank,
          .world_size = from.world_size,
          .resume = nullptr,
          .max_pinned_bytes = from.max_pinned_bytes,
          .max_device_bytes = from.max_device_bytes,
          .read_failures = from.read_failures.count,
          .read_failure_rate = from.read_failures.rate,
          .copy_chunk_bytes = from.copy_chunk_bytes,
          .sample_every = from.sample_every,
          .packed = 0,
          .check_slots = static_cast<std::int32_t>(from.check_slots),
          .packed_most_samples = Packing{}.most_samples,
          .autotune_every = 0,
          .autotune_max_workers = Autotune{}.max_workers,
          .autotune_max_prefetch_depth = Autotune{}.max_prefetch_depth,
          .read_across_epochs = from.read_across_epochs ? 1 : 0,
          .pad_to = static_cast<std::int32_t>(from.pad_to)};
}

PrefetcherOptions options_of(const leat_options* given) {
  const char* const function = "leat_prefetcher_open";
  require(given, function, "options");
  const leat_options all = complete(defaults(), *given, kFirstOptions, function, "leat_options");
  check_reserved(all.reserved, function, "leat_options");
  const auto one_of = [&](std::int32_t value, auto last, const char* option, const char* type) {
    return enumerator(value, last, function, option, type);
  };
  std::optional<Packing> packing;
  if (all.packed != 0) packing = {.most_samples = all.packed_most_samples};
  std::optional<Autotune> autotune;
  if (all.autotune_every != 0) {
    autotune = {.max_workers = all.autotune_max_workers,
                .max_prefetch_depth = all.autotune_max_prefetch_depth,
                .every = all.autotune_every};
  }
  return {.batch_size = all.batch_size,
          .prefetch_depth = all.prefetch_depth,
          .max_leases = all.max_leases,
          .workers = all.workers,
          .pinned_slots = all.pinned_slots,
          .order = one_of(all.order, Order::kShuffled, "order", "leat_order"),
          .seed = all.seed,
          .last_batch = one_of(all.last_batch, LastBatch::kWrap, "last_batch", "leat_last_batch"),
          .packing = packing,
          .delivery = one_of(all.delivery, Delivery::kAsCompleted, "delivery", "leat_delivery"),
          .rank = all.rank,
          .world_size = all.world_size,
          .read_failures = {.count = all.read_failures, .rate = all.read_failure_rate},
          .autotune = autotune,
          .copy_chunk_bytes = all.copy_chunk_bytes,
          .max_pinned_bytes = all.max_pinned_bytes,
          .max_device_bytes = all.max_device_bytes,
          .resume = all.resume == nullptr ? std::nullopt : std::optional<std::string>(all.resume),
          .check_slots =
              one_of(all.check_slots, CheckSlots::kReadOnly, "check_slots", "leat_check_slots"),
          .read_across_epochs = all.read_across_epochs != 0,
          .pad_to = one_of(all.pad_to, PadTo::kBatch, "pad_to", "leat_pad_to"),
          .sample_every = all.sample_every};
}

leat_stage_shares shares_of(const StageShares& from) {
  return {.busy = from.busy, .starved = from.starved, .blocked = from.blocked};
}

leat_stats stats_of(const Stats& from) {
  return {.batches = from.batches,
          .sampled_steps = from.sampled_steps,
          .reordered = from.reordered,
          .most_overtaken = from.most_overtaken,
          .failed_samples = from.failed_samples,
          .workers = from.workers,
          .prefetch_depth = from.prefetch_depth,
          .device_slots = from.device_slots,
          .pinned_slots = from.pinned_slots,
          .batch_bytes = from.batch_bytes,
          .t_read = from.t_read,
          .t_x = from.t_x,
          .t_c = from.t_c,
          .t_step = from.t_step,
          .overlap_efficiency = from.overlap_efficiency(),
          .reader = shares_of(from.reader),
          .copier = shares_of(from.copier),
          .consumer = shares_of(from.consumer),
          .idle_ends = from.idle_ends,
          .cold_bytes = from.cold_bytes,
          .hot_bytes = from.hot_bytes,
          .major_faults = from.major_faults,
          .past_cache_bytes = from.past_cache_bytes};
}

std::string failures_of(const Prefetcher& prefetcher) {
  std::string lines;
  for (FailedSample& one : prefetcher.failed_samples()) {
    std::ranges::replace(one.error, '\n', ' ');  // a user's text may have line breaks
    lines += std::string(to_string(one.stage)) + " epoch=" + std::to_string(one.epoch) +
             " batch=" + std::to_string(one.batch) + " sample=" + std::to_string(one.sample) +
             " error=" + one.error + '\n';
  }
  return lines;
}

std::optional<Lease> next_of(OpenPrefetcher& open) {
  if (!open.start.has_value()) return open.prefetcher.next();
  Epoch epoch = open.prefetcher.epoch(*std::exchange(open.start, std::nullopt));
  const Epoch::Iterator first = epoch.begin();
  if (first == epoch.end()) return std::nullopt;
  return std::move(*first);
}

template <class Text>
leat_status text_of(const leat_prefetcher* prefetcher, char* buffer, std::size_t size,
                    std::size_t* needed, const char* function, Text&& text) {
  return call(function, [&](const char*) {
    return give_text(text(*prefetchers().find(prefetcher, function)), buffer, size, needed,
                     function);
  });
}

}  // namespace
}  // namespace leat::feeder::c

using namespace leat::feeder::c;  // NOLINT(google-build-using-namespace): this is its C API

extern "C" {

leat_status leat_options_init(leat_options* options, size_t size) {
  return call(__func__, [&](const char* function) {
    require(options, function, "options");
    leat_options all = defaults();
    all.size = size;
    give_struct(all, options, size, kFirstOptions, function, "leat_options");
    return LEAT_OK;
  });
}

leat_status leat_prefetcher_open(const leat_dataset* dataset, const char* device,
                                 const leat_options* options, leat_prefetcher** prefetcher) {
  return call(__func__, [&](const char* function) {
    require(prefetcher, function, "prefetcher");
    *prefetcher = nullptr;
    const auto data = datasets().find(dataset, function)->dataset;
    const leat::feeder::PrefetcherOptions all = options_of(options);
    auto open = std::make_unique<OpenPrefetcher>(
        data, leat::gpu::open(device == nullptr ? "auto" : device), all);
    if (all.resume.has_value()) {
      open->first_epoch = leat::feeder::State::parse(*all.resume).next_epoch();
    }
    *prefetcher =
        static_cast<leat_prefetcher*>(prefetchers().insert(std::shared_ptr<OpenPrefetcher>(
            open.get(), [unused = open->unused](OpenPrefetcher*) { unused->notify(); })));
    static_cast<void>(open.release());  // leat_prefetcher_close deletes it
    return LEAT_OK;
  });
}

leat_status leat_prefetcher_next(leat_prefetcher* prefetcher, leat_batch** batch) {
  return call(__func__, [&](const char* function) {
    require(batch, function, "batch");
    *batch = nullptr;
    const auto open = prefetchers().find(prefetcher, function);
    const OnlyUser alone(open->in_use, function);
    // A nested call, so that the error's text is copied while the prefetcher, which shares the
    // error, is held. The standard library counts the owners, but ThreadSanitizer does not see how.
    return call(function, [&](const char*) {
      std::optional<leat::feeder::Lease> lease = next_of(*open);
      if (!lease.has_value()) return LEAT_END_OF_EPOCH;
      try {
        *batch = static_cast<leat_batch*>(
            batches().insert(std::make_shared<OpenBatch>(*std::move(lease), open->tensors)));
      } catch (...) {
        lease->abandon();  // the caller never gets the batch
        throw;
      }
      return LEAT_OK;
    });
  });
}

leat_status leat_prefetcher_start_epoch(leat_prefetcher* prefetcher, uint64_t epoch) {
  return call(__func__, [&](const char* function) {
    const auto open = prefetchers().find(prefetcher, function);
    const OnlyUser alone(open->in_use, function);
    if (epoch > leat::feeder::kLastEpoch) {
      refuse(function, "there is no epoch " + std::to_string(epoch));
    }
    open->start = epoch;
    return LEAT_OK;
  });
}

leat_status leat_prefetcher_plan(const leat_prefetcher* prefetcher, uint64_t* batches_per_epoch,
                                 uint64_t* first_epoch) {
  return call(__func__, [&](const char* function) {
    const auto open = prefetchers().find(prefetcher, function);
    if (batches_per_epoch != nullptr) *batches_per_epoch = open->prefetcher.batches_per_epoch();
    if (first_epoch != nullptr) *first_epoch = open->first_epoch;
    return LEAT_OK;
  });
}

leat_status leat_prefetcher_state(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                  size_t* needed) {
  return text_of(prefetcher, buffer, size, needed, __func__,
                 [](const OpenPrefetcher& open) { return open.prefetcher.state(); });
}

leat_status leat_state_merge(const char* const* states, size_t count, char* buffer, size_t size,
                             size_t* needed) {
  return call(__func__, [&](const char* function) {
    require(states, function, "states");
    std::vector<leat::feeder::State> all;
    for (std::size_t i = 0; i < count; ++i) {
      require(states[i], function, "one of states");
      all.push_back(leat::feeder::State::parse(states[i]));
    }
    return give_text(leat::feeder::State::merge(all).text(), buffer, size, needed, function);
  });
}

leat_status leat_prefetcher_stats_table(const leat_prefetcher* prefetcher, char* buffer,
                                        size_t size, size_t* needed) {
  return text_of(prefetcher, buffer, size, needed, __func__,
                 [](const OpenPrefetcher& open) { return open.prefetcher.stats().table(); });
}

leat_status leat_prefetcher_failures(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                     size_t* needed) {
  return text_of(prefetcher, buffer, size, needed, __func__,
                 [](const OpenPrefetcher& open) { return failures_of(open.prefetcher); });
}

leat_status leat_prefetcher_device(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                   size_t* needed) {
  return text_of(prefetcher, buffer, size, needed, __func__,
                 [](const OpenPrefetcher& open) { return open.device.name(); });
}

leat_status leat_prefetcher_stats(const leat_prefetcher* prefetcher, leat_stats* stats,
                                  size_t size) {
  return call(__func__, [&](const char* function) {
    require(stats, function, "stats");
    const auto open = prefetchers().find(prefetcher, function);
    give_struct(stats_of(open->prefetcher.stats()), stats, size, kFirstStats, function,
                "leat_stats");
    return LEAT_OK;
  });
}

leat_status leat_prefetcher_close(leat_prefetcher* prefetcher) {
  return call(__func__, [&](const char* function) {
    if (prefetcher == nullptr) return LEAT_OK;
    // stop() comes first: once a caller sees that the handle is closed, no batch comes any more.
    prefetchers().find(prefetcher, function)->prefetcher.stop();
    auto open = prefetchers().remove(prefetcher, function);
    OpenPrefetcher* const owned = open.get();
    const auto unused = owned->unused;
    open.reset();
    {
      const leat::Shield to_the_end;
      const leat::OutsideWork threads;  // they are invisible to the deadlock detection
      unused->wait();                   // for the calls of other threads
    }
    delete owned;
    return LEAT_OK;
  });
}

}  // extern "C"
