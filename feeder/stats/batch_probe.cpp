#include "leat/feeder/stats/batch_probe.h"

#include <optional>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/slots/slots.h"

namespace leat::feeder {

BatchProbe::BatchProbe(const SlotRing& ring, StatsCollector& stats,
                       std::shared_ptr<DeviceTrace> trace)
    : ring_(ring), stats_(stats), trace_(std::move(trace)) {}

// Calls write(batch) under the trace's lock, if the batch is traced.
template <class Write>
void BatchProbe::note(TracedBatch* batch, Write&& write) {
  if (batch == nullptr) return;
  trace_->note(batch,
               {.at = now(),
                .filled = ring_.filled.size(),
                .ready = ring_.ready.size(),
                .free_device = ring_.free_device.size()},
               std::forward<Write>(write));
}

void BatchProbe::filled(PinnedSlot& slot, const Filling& filling) {
  stats_.add_read(filling.busy, filling.cpu, filling.cold_bytes, filling.major_faults);
  slot.traced = trace_ == nullptr ? nullptr : trace_->next();
  note(slot.traced, [&](TracedBatch& traced) {
    traced.batch = slot.batch;
    traced.reader = filling.reader;
    traced.read = {.begin = filling.begin, .end = filling.begin + filling.busy};
    traced.is_read = true;
  });
}

void BatchProbe::overtook(std::uint64_t batches) noexcept {
  if (batches > 0) stats_.add_reordered(batches);
}

void BatchProbe::slot_found(const PinnedSlot& from, bool is_last) {
  blocked_ = now() - slot_wanted_;
  part_ = stats_.next_part(is_last);
  if (part_ == StepPart::kFirst) {
    pair_ = stats_.take();
    pair_generation_ = from.generation;
    pair_epoch_ = from.batch.epoch;
  }
  if (part_ == StepPart::kSecond && !stats_.crosses_epochs() &&
      (pair_generation_ != from.generation || pair_epoch_ != from.batch.epoch)) {
    // The pair's first batch ended this rank's part of its epoch: no step leads from it to here.
    if (pair_ != nullptr) stats_.let_go(std::exchange(pair_, nullptr));
    part_ = StepPart::kNone;
  }
  if (part_ == StepPart::kSecond && pair_ != nullptr) pair_->queued.record(ring_.copy_stream);
}

void BatchProbe::copy_begins(PinnedSlot& from) {
  traced_ = std::exchange(from.traced, nullptr);
  if (part_ == StepPart::kSecond && pair_ != nullptr) pair_->copy_start.record(ring_.copy_stream);
  if (traced_ != nullptr) traced_->copy_begin.record(ring_.copy_stream);
}

void BatchProbe::copied(DeviceSlot& to, std::size_t bytes) {
  if (part_ != StepPart::kNone && pair_ != nullptr) {
    if (part_ == StepPart::kFirst) {
      pair_->copy_end_before.record(ring_.copy_stream);
      to.marks.timing = pair_;
    } else {
      pair_->copy_end.record(ring_.copy_stream);
      pair_->copier_blocked = blocked_;
      pair_->copied = true;
      to.marks.timing = std::exchange(pair_, nullptr);
    }
  }
  to.marks.part = part_;
  if (traced_ != nullptr) traced_->copy_end.record(ring_.copy_stream);
  note(traced_, [&](TracedBatch& one) {
    one.wait_for_slot = {.begin = slot_wanted_, .end = slot_wanted_ + blocked_};
    one.bytes = bytes;
    one.slot = to.number;
    one.is_copied = true;
  });
  to.marks.traced = traced_;
  stats_.add_copy(bytes);
}

void BatchProbe::asked(const gpu::StreamRef& stream) { stats_.asked(stream); }

void BatchProbe::handed_out(DeviceSlot& slot, PassId pass, Duration waited) noexcept {
  const auto lock = ring_.guard(slot);  // against next_asked() for an earlier turn
  slot.use = {.turn = slot.use.turn + 1,
              .pass = pass,
              .is_own_time = ring_.is_own_time(),
              .is_open = true,
              .is_marked = false,
              .cpu_waits = false,
              .cpu_waited = false,
              .waited = waited,
              .late_waits = Duration(late_waits_.load(std::memory_order_relaxed)),
              .received = now()};
  if (!slot.use.is_own_time) return;
  note(slot.marks.traced, [&use = slot.use](TracedBatch& traced) {
    traced.wait_for_batch = {.begin = use.received - use.waited, .end = use.received};
    traced.lease.begin = use.received;
    traced.is_leased = true;
  });
}

void BatchProbe::waited(DeviceSlot& slot, TimePoint since, bool is_done) noexcept {
  const auto lock = ring_.guard(slot);
  DeviceSlot::Use& use = slot.use;
  use.is_own_time = use.is_own_time && ring_.is_own_time();
  use.cpu_waited = is_done;
  const TimePoint until = now();
  if (!use.is_open) {  // the next batch was asked for: the wait is in that one's step
    if (use.is_own_time) late_waits_.fetch_add((until - since).count(), std::memory_order_relaxed);
    return;
  }
  if (std::exchange(use.cpu_waits, true)) since = use.received;  // when the wait has timed out
  use.waited += until - since + take_late_waits(use);
  use.received = until;
}

// Returns how long the consumer has waited for copies of batches before this one, since it received
// this one or since the last call.
Duration BatchProbe::take_late_waits(DeviceSlot::Use& use) const noexcept {
  const Duration all(late_waits_.load(std::memory_order_relaxed));
  return all - std::exchange(use.late_waits, all);
}

void BatchProbe::binds(const DeviceSlot& slot, const gpu::StreamRef& stream) {
  const DeviceSlot::Marks& marks = slot.marks;
  if (marks.part != StepPart::kSecond || marks.timing == nullptr || slot.bound != 0) return;
  marks.timing->arrived.record(stream);
}

void BatchProbe::bound(const DeviceSlot& slot, const gpu::StreamRef& stream) {
  if (slot.bound != 0) return;
  binds_streams_.store(true, std::memory_order_relaxed);
  const DeviceSlot::Marks& marks = slot.marks;
  if (marks.part == StepPart::kSecond && marks.timing != nullptr) {
    marks.timing->bound.record(stream);
    marks.timing->consumer_starved = slot.use.waited;
    marks.timing->bound_second = true;
  }
  if (marks.traced != nullptr) {
    marks.traced->use_begin.record(stream);
    note(marks.traced, [](TracedBatch& traced) { traced.is_used = true; });
  }
}

void BatchProbe::next_asked(const Turn& turn) noexcept {
  if (turn.slot == nullptr) return;
  DeviceSlot& slot = *turn.slot;
  const auto lock = ring_.guard(slot);
  if (!slot.use.is_open || slot.use.turn != turn.number) return;
  // The batch may still be bound to a stream, unless the CPU uses it: then the step ends with its
  // release.
  if (slot.bound == 0 && !slot.use.cpu_waited && binds_streams_.load(std::memory_order_relaxed))
    return;
  try {
    mark_end(slot, true);
  } catch (const Error&) {
    // The device has failed, which the release reports.
  }
  end_step(slot);
}

void BatchProbe::releases(DeviceSlot& slot) {
  const auto lock = ring_.guard(slot);
  mark_end(slot, false);
}

// Records the end of the step on the first stream, unless it is recorded or there is no stream yet.
void BatchProbe::mark_end(DeviceSlot& slot, bool next_is_asked) {
  if (slot.bound == 0 || std::exchange(slot.use.is_marked, true)) return;
  const DeviceSlot::Marks& marks = slot.marks;
  const gpu::StreamRef& stream = *slot.streams[0];
  if (marks.part == StepPart::kSecond && marks.timing != nullptr) {
    marks.timing->was_idle = !stream.is_capturing() && stream.is_done();
  }
  if (marks.traced != nullptr) {
    marks.traced->use_end.record(stream);
    note(marks.traced, [](TracedBatch& traced) { traced.is_released = traced.is_used; });
  }
  if (marks.timing == nullptr) return;
  StepTiming& timing = *marks.timing;
  if (marks.part == StepPart::kFirst) {
    timing.released_before.record(stream);
    timing.released_first = true;
    if (next_is_asked) {
      timing.asked.record(stream);
      timing.asked_second = true;
    } else if (ring_.leases() == 1) {
      stats_.first_released(marks.timing);
    }
  } else {
    timing.released.record(stream);
    timing.released_second = true;
  }
}

// Ends the step on the host's clock, unless it has ended.
void BatchProbe::end_step(DeviceSlot& slot) noexcept {
  DeviceSlot::Use& use = slot.use;
  if (!std::exchange(use.is_open, false)) return;
  use.is_own_time = use.is_own_time && ring_.is_own_time();
  if (slot.bound > 0 || !use.is_own_time) return;
  const Duration late = take_late_waits(use);
  stats_.add_host_step(use.pass,
                       {.starved = use.waited + late, .busy = now() - use.received - late});
}

void BatchProbe::ended(DeviceSlot& slot, bool done) noexcept {
  {
    const auto lock = ring_.guard(slot);
    end_step(slot);
  }
  const bool is_own_time = ring_.is_own_time();
  if (slot.marks.traced != nullptr && slot.use.is_own_time && is_own_time) {
    note(slot.marks.traced, [at = now()](TracedBatch& traced) {
      traced.lease.end = at;
      traced.has_ended = traced.is_leased;
    });
  }
  if (!done) return;
  stats_.add_release(slot.batch.epoch, slot.batch.index, slot.batch.samples, is_own_time);
}

void BatchProbe::given_back(DeviceSlot& slot) {
  if (slot.marks.timing != nullptr) stats_.let_go(std::exchange(slot.marks.timing, nullptr));
  slot.marks.traced = nullptr;
}

}  // namespace leat::feeder
