#include "leat/feeder/stats/batch_probe.h"

#include <optional>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stats/tuner.h"

namespace leat::feeder {

BatchProbe::BatchProbe(const SlotRing& ring, StatsCollector& stats,
                       std::unique_ptr<SlotChecks> checks, std::shared_ptr<DeviceTrace> trace)
    : ring_(ring), stats_(stats), checks_(std::move(checks)), trace_(std::move(trace)) {}

BatchProbe::~BatchProbe() = default;

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
  stats_.add_read(filling.busy, filling.cpu);
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
  if (part_ == StepPart::kSecond &&
      (pair_generation_ != from.generation || pair_epoch_ != from.batch.epoch)) {
    // The pair's first batch ended this rank's part of its epoch: no step leads from it to here.
    if (pair_ != nullptr) stats_.let_go(std::exchange(pair_, nullptr));
    part_ = StepPart::kNone;
  }
  if (part_ == StepPart::kSecond && pair_ != nullptr) pair_->queued.record(ring_.copy_stream);
}

void BatchProbe::copy_begins(DeviceSlot& to, PinnedSlot& from) {
  if (checks_ != nullptr) {
    checks_->before_copy(to);
    checks_->copied(to, from);
  }
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

void BatchProbe::staged() noexcept {
  if (tuner_ != nullptr) tuner_->staged();
}

void BatchProbe::asked(const gpu::StreamRef& stream) { stats_.asked(stream); }

void BatchProbe::handing_out(DeviceSlot& slot) {
  if (checks_ != nullptr) checks_->before_hand_out(slot);
}

Lease::Times BatchProbe::handed_out(const DeviceSlot& slot, Duration waited) noexcept {
  const Lease::Times times{
      .are_own = ring_.is_own_time(), .cpu_waited = false, .waited = waited, .received = now()};
  if (!times.are_own) return times;
  note(slot.marks.traced, [&](TracedBatch& traced) {
    traced.wait_for_batch = {.begin = times.received - waited, .end = times.received};
    traced.lease.begin = times.received;
    traced.is_leased = true;
  });
  return times;
}

void BatchProbe::waited(Lease::Times& times, TimePoint since) const noexcept {
  times.are_own = times.are_own && ring_.is_own_time();
  times.cpu_waited = true;
  times.received = now();
  times.waited += times.received - since;
}

void BatchProbe::binds(const DeviceSlot& slot, const gpu::StreamRef& stream) {
  const DeviceSlot::Marks& marks = slot.marks;
  if (marks.part != StepPart::kSecond || marks.timing == nullptr || slot.bound != 0) return;
  marks.timing->arrived.record(stream);
}

void BatchProbe::bound(const DeviceSlot& slot, const gpu::StreamRef& stream,
                       const Lease::Times& times) {
  if (slot.bound != 0) return;
  const DeviceSlot::Marks& marks = slot.marks;
  if (marks.part == StepPart::kSecond && marks.timing != nullptr) {
    marks.timing->bound.record(stream);
    marks.timing->consumer_starved = times.waited;
    marks.timing->bound_second = true;
  }
  if (marks.traced != nullptr) {
    marks.traced->use_begin.record(stream);
    note(marks.traced, [](TracedBatch& traced) { traced.is_used = true; });
  }
}

void BatchProbe::released(const DeviceSlot& slot) {
  if (slot.bound == 0) return;
  const DeviceSlot::Marks& marks = slot.marks;
  const gpu::StreamRef& stream = *slot.streams[0];
  if (marks.traced != nullptr) {
    marks.traced->use_end.record(stream);
    note(marks.traced, [](TracedBatch& traced) { traced.is_released = traced.is_used; });
  }
  if (marks.timing == nullptr) return;
  if (marks.part == StepPart::kFirst) {
    marks.timing->released_before.record(stream);
    marks.timing->released_first = true;
    if (ring_.leases() == 1) stats_.first_released(marks.timing);
  } else {
    marks.timing->released.record(stream);
    marks.timing->released_second = true;
  }
}

void BatchProbe::ended(const DeviceSlot& slot, PassId pass, const Lease::Times& times,
                       bool done) noexcept {
  const bool are_own = times.are_own && ring_.is_own_time();
  if (slot.bound == 0 && are_own) {
    stats_.add_host_release(
        pass, times.cpu_waited ? std::optional(StatsCollector::HostStep{
                                     .starved = times.waited, .busy = now() - times.received})
                               : std::nullopt);
  }
  if (slot.marks.traced != nullptr && are_own) {
    note(slot.marks.traced, [at = now()](TracedBatch& traced) {
      traced.lease.end = at;
      traced.has_ended = traced.is_leased;
    });
  }
  if (!done) return;
  stats_.add_release(slot.batch.epoch, slot.batch.index, slot.batch.samples, ring_.is_own_time());
}

void BatchProbe::given_back(DeviceSlot& slot) {
  if (slot.marks.timing != nullptr) stats_.let_go(std::exchange(slot.marks.timing, nullptr));
  slot.marks.traced = nullptr;
  if (checks_ != nullptr) checks_->released(slot);
}

}  // namespace leat::feeder
