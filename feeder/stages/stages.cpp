#include "leat/feeder/stages/stages.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "leat/csp/blocking.h"
#include "leat/csp/error.h"
#include "leat/csp/select.h"
#include "leat/feeder/slots/copy.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/stages/read_place.h"
#include "leat/feeder/stages/reader.h"

namespace leat::feeder {
namespace {

std::int64_t all_slots(const std::vector<std::shared_ptr<SlotRing>>& rings) {
  std::size_t sum = 0;
  for (const auto& ring : rings) sum += ring->pinned().size();
  return static_cast<std::int64_t>(sum);
}

// Returns how many samples of an epoch are for this process.
std::uint64_t samples_of(const Dataset& dataset, const PrefetcherOptions& options,
                         std::size_t ranks) {
  if (options.sharing == Sharing::kDynamic) return dataset.size();
  return (dataset.size() / options.world_size) * ranks;
}

// The exception that is being handled. If a stage has found its ring closed, why it was closed: the
// ring's consumer was the first to see that the device has failed.
std::exception_ptr first_cause() {
  try {
    try {
      throw;
    } catch (const ChannelClosed& closed) {
      std::rethrow_if_nested(closed);
      throw;
    }
  } catch (...) {
    return std::current_exception();
  }
}

// Of fiber `i` of the readers' fibers.
std::string reader_name(std::size_t i, std::size_t readers) {
  const std::string name = "reader " + std::to_string(i % readers);
  return i < readers ? name : name + ", request " + std::to_string(i / readers + 1);
}

}  // namespace

Stages::Stages(const Dataset& dataset, const PrefetcherOptions& options, const BatchPlan& plan,
               const ReleaseLog& log, std::vector<std::shared_ptr<SlotRing>> rings,
               const Active& active, const std::vector<std::uint64_t>& resumed)
    : requests(rings.size(), resumed, options.read_across_epochs),
      failures(std::string(dataset.name()), samples_of(dataset, options, rings.size()),
               options.read_failures, options.transform_failures),
      is_virtual_(rings[0]->is_virtual_time()),
      dataset_(dataset),
      source_(dataset.as_batch_source()),
      first_pass_(SourceReader::new_passes()),
      options_(options),
      sampler_(sampler_of(dataset, options.order, options.seed)),
      plan_(plan),
      log_(log),
      batch_sampler_(plan, options_, rings.size(), log, dataset, sampler_, requests, first_pass_),
      rings_(std::move(rings)),
      free_pinned_(all_slots(rings_), "free pinned slots"),
      work_(channels_of_work(source_, options_.workers, all_slots(rings_))),
      readings_(fibers()),
      asking_(source_ == nullptr ? 0 : readers()) {
  if (options.autotune.has_value()) {
    autotuner_ = std::make_unique<Autotuner>(*options.autotune, active, options.max_leases, rings_,
                                             free_pinned_);
    return;
  }
  for (const auto& ring : rings_) {
    for (const auto& slot : ring->pinned()) static_cast<void>(free_pinned_.try_send(slot.get()));
  }
}

void Stages::finish(const std::exception_ptr& cause) noexcept {
  std::exception_ptr first;
  {
    const std::scoped_lock lock(cause_mutex_);
    if (cause_ == nullptr) cause_ = cause;
    first = cause_;
  }
  for (const auto& ring : rings_) ring->finish(first);
}

// With autotune, as many as it may ever let read.
std::size_t Stages::readers() const noexcept {
  return options_.autotune.has_value() ? options_.autotune->max_workers : options_.workers;
}

// Returns how many fibers read. Of a source, no more than there are slots: with one more, a reader
// could have two slots while another one has none.
std::size_t Stages::fibers() const noexcept {
  const std::size_t wanted = readers() * requests_of(source_);
  return std::clamp(wanted, readers(),
                    std::max(readers(), static_cast<std::size_t>(all_slots(rings_))));
}

// Returns the bytes of the pinned slots in use, of all devices. They are written in turn.
std::size_t Stages::ring_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& ring : rings_) {
    sum += autotuner_ ? ring->layout.staged_bytes() * autotuner_->pinned_slots()
                      : ring->pinned_bytes();
  }
  return sum;
}

std::string Stages::text_of(const std::vector<FiberReport>& fibers) const {
  const std::optional<TimePoint> at =
      rings_[0]->is_own_time() ? std::optional(now()) : std::nullopt;
  std::vector<std::string> reads;
  for (const Reading& one : readings_) reads.push_back(one.text(at, dataset_, options_.seed));
  std::string text;
  for (const FiberReport& fiber : fibers) {
    std::string state = fiber.state;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (!reads[i].empty() && fiber.name == reader_name(i, readers())) state = reads[i];
    }
    text.append(fiber.name).append(": ").append(state).append("\n");
  }
  return text;
}

void Stages::launch(TaskGroup& group) {
  stop_ = group.stop_token();
  const auto start = [&](const std::string& name, auto body) {
    group.go(
        [this, body = std::move(body)] {
          try {
            body();
          } catch (const Cancelled&) {
            finish(std::make_exception_ptr(Error("leat: the prefetcher was stopped")));
            throw;
          } catch (...) {
            finish(first_cause());
            throw;  // stops the other stages
          }
        },
        {.name = name, .stack_size = kStackSize});
  };
  start("sampler", [this] { sample(); });
  for (std::size_t i = 0; i < readings_.size(); ++i) {
    start(reader_name(i, readers()), [this, i] { source_ == nullptr ? read(i) : fill(i); });
  }
  if (autotuner_) start("tuner", [this] { autotuner_->run(); });
  for (const auto& ring : rings_) {
    const std::string of_rank =
        rings_.size() > 1 ? " of rank " + std::to_string(options_.rank + ring->rank) : "";
    start("copier" + of_rank, [this, &ring = *ring] { copy(ring); });
    start("recycler" + of_rank, [this, &ring = *ring] { recycle(ring); });
  }
}

// The sampler: assigns a batch to each free slot.
void Stages::sample() {
  std::vector<std::vector<PinnedSlot*>> free(rings_.size());
  for (std::size_t i = 0; i < free.size(); ++i) free[i].reserve(rings_[i]->pinned().size());
  std::optional<PinnedSlot*> slot;
  for (;;) {
    while (free_pinned_.try_recv(slot) == ChannelStatus::ok) free[(*slot)->rank].push_back(*slot);
    if (requests.news.try_wait()) {
      for (std::size_t rank = 0; rank < requests.ranks(); ++rank) {
        if (const auto request = requests.take(rank)) batch_sampler_.start(rank, *request);
      }
    }

    std::optional<std::size_t> first;  // rank with a free slot and the fewest batches
    for (std::size_t rank = 0; rank < free.size(); ++rank) {
      if (free[rank].empty() || !batch_sampler_.has_next(rank)) continue;
      if (!first.has_value() || batch_sampler_.given(rank) < batch_sampler_.given(*first)) {
        first = rank;
      }
    }
    if (first.has_value()) {
      PinnedSlot& next = *free[*first].back();
      free[*first].pop_back();
      hand_out(next);
      continue;
    }
    select(requests.news.on_ring([&] { requests.news.ring(); }),  // heard at the top of the loop
           on_recv(free_pinned_, [&](std::optional<PinnedSlot*> freed) {
             free[(*freed)->rank].push_back(*freed);
           }));
  }
}

void Stages::hand_out(PinnedSlot& slot) {
  slot.state.move_on(PinnedState::kFree, PinnedState::kFilling);
  try {
    batch_sampler_.next(slot);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    slot.error = std::current_exception();  // travels in order, as a reader's error does
  }
  if (slot.ends_epoch || slot.error != nullptr || slot.of_source.is_skipped) {
    slot.state.move_on(PinnedState::kFilling, PinnedState::kFilled);
    rings_[slot.rank]->filled.send(&slot);
  } else {
    work_of(slot.reader).send(&slot);
  }
}

void Stages::read(std::size_t number) {
  Reading& reading = readings_[number];
  Reader reader({.dataset = dataset_,
                 .options = options_,
                 .sampler = sampler_,
                 .failures = failures,
                 .work = work_[0],
                 .is_virtual = is_virtual_},
                reading, stop_);
  ReadPlace place(dataset_.blocking());
  const std::size_t l3 = l3_bytes();
  for (;;) {
    if (autotuner_) autotuner_->begin_read();
    PinnedSlot* const slot = &reader.next();
    SlotRing& ring = *rings_[slot->rank];
    const TimePoint start = now();
    slot->cost = {};
    Attempt attempt(ring, &Observer::read_begins, *slot);
    reading.begin(slot->batch, start);
    bool has_begun = false;
    const auto fill = [&] {
      has_begun = true;
      const auto read_from = [&](const Dataset& source) {
        slot->cost = reader.fill(*slot, ring.layout, source, l3 > 0 && ring_bytes() >= l3);
      };
      if (ring.checks == nullptr) read_from(dataset_);
      if (ring.checks != nullptr) ring.checks->fills(*slot).fill(*slot, dataset_, read_from);
      past_cache_bytes_.fetch_add(reader.past_cache_bytes(), std::memory_order_relaxed);
    };
    try {
      try {
        if (place.is_thread()) blocking(fill);
      } catch (const Error&) {
        // Without a thread, a read that seldom blocks may do so here. Others may need a large
        // stack.
        if (has_begun || dataset_.blocking() == Blocking::kOften) throw;
      }
      if (!has_begun) fill();
    } catch (const Error&) {
      slot->error = std::current_exception();  // travels in order, behind the batches before it
    }
    reading.end();
    const Duration busy = now() - start;
    place.took(busy);
    slot->reader = number;
    slot->read = {.begin = start, .end = start + busy};
    // An estimate if a read parks: see FillMeter.
    slot->cost.cpu = std::clamp(slot->cost.cpu, Duration::zero(), busy);
    attempt.done(&Observer::read, *slot);
    slot->state.move_on(PinnedState::kFilling, PinnedState::kFilled);
    ring.filled.send(slot);
    if (autotuner_) autotuner_->end_read();
  }
}

void Stages::fill(std::size_t fiber) {
  const std::size_t number = fiber % readers();
  SourceReader reader({.source = *source_,
                       .options = options_,
                       .sampler = sampler_,
                       .first_pass = first_pass_,
                       .is_virtual = is_virtual_},
                      readings_[fiber], number);
  for (;;) {
    std::unique_lock asking(asking_[number]);
    PinnedSlot* const slot = *work_of(number).recv();
    SlotRing& ring = *rings_[slot->rank];
    {
      Attempt attempt(ring, &Observer::read_begins, *slot);
      if (reader.fill(*slot, ring, asking)) attempt.done(&Observer::read, *slot);
    }
    slot->state.move_on(PinnedState::kFilling, PinnedState::kFilled);
    ring.filled.send(slot);
  }
}

void Stages::add_to(Stats& stats) const {
  stats.failed_samples = failures.count();
  stats.ring_bytes = ring_bytes();
  stats.past_cache_bytes = past_cache_bytes_.load(std::memory_order_relaxed);
  if (autotuner_) autotuner_->add_to(stats);
}

void Stages::copy(SlotRing& ring) {
  Copier({.options = options_,
          .plan = plan_,
          .log = log_,
          .source = source_,
          .shares_link = rings_.size() > 1,
          .autotuner = autotuner_.get(),
          .free = [this](PinnedSlot& slot) { free(slot); }},
         ring)
      .run();
}

void Stages::recycle(SlotRing& ring) {
  for (PinnedSlot* const slot : ring.in_flight) {
    slot->copied.await();
    if (ring.checks != nullptr) ring.checks->fills(*slot).expect_kept();
    slot->state.move_on(PinnedState::kCopying, PinnedState::kFree);
    free(*slot);
  }
}

// The sampler gets the slot, unless autotune takes it back.
void Stages::free(PinnedSlot& slot) {
  if (autotuner_ == nullptr || !autotuner_->takes_back(slot)) free_pinned_.send(&slot);
}

}  // namespace leat::feeder
