// One record of a batch: what happens to it, from its read to the end of its lease.
//
// A slot has the record of its batch, and the slot's owner writes it. The copier takes it along,
// from the pinned slot to the device slot. Three observers, the stats (StatsCollector), a trace
// (DeviceTrace) and a profiler (profiler_ranges), are told of a few events. In their order:
//
//   event        told by           known then              stats        trace              profiler
//   read_begins  reader            batch, generation                                       read
//   read         reader            read, cpu, cold_bytes   Tread                           its end
//   copy_begins  copier            wait_for_slot           wants marks  wants marks, read  copy
//   copied       copier            slot, bytes             bytes        wait for a slot    its end
//   handed_out   lease             pass, starved so far                 wait for a batch   step
//   used         lease, if traced  starved                              notes
//   step_ended   consumer, lease   the marks, or busy      host's step  notes
//   given_back   slot's last owner is_done                 steps        lease              its end
//   abandoned    reader, copier    the same as before                                      its end
//
// On the device, marks delimit a batch: timed events, which the owner records between two pieces of
// work, if an observer wants them.
//
// `abandoned` takes the place of `read` and `copied`: a read or a copy has ended without a batch,
// by an error, a cancellation, or because there is no such batch. A dataset's error comes with the
// batches, so it is told as `read`.
//
// Marks are chosen when a copy begins: the stats time two successive copies, and a trace has
// successive batches, whose order is known then.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "leat/csp/clock.h"
#include "leat/feeder/plan/batch_id.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

struct StepTiming;
struct TracedBatch;
enum class PassId : std::uint64_t;

/// A stretch of the scheduler's time.
struct Stretch {
  TimePoint begin;
  TimePoint end;
};

/// What the read of a batch cost, beside its time.
struct ReadCost {
  Duration cpu = Duration::zero();  // 0 in virtual time, which passes without computing
  std::uint64_t cold_bytes = 0;     // that the disk was to fetch, read-ahead included
  std::uint64_t major_faults = 0;
};

/// Where a batch is on the device.
enum class Mark : std::uint8_t {
  kQueued,      // copy stream: a slot is there; the stream does not wait for its release yet
  kCopyBegins,  // copy stream
  kCopyEnds,    // copy stream
  kArrived,     // first stream of the lease: before it waits for the copy
  kUseBegins,   // the same: behind that wait
  kUseEnds,     // the same: the step ends
  kNextAsked,   // the stream of the next batch, when that is asked for
};

/// Timed events for some of the marks. One thread at a time records; others may ask for marks.
class Marks {
 public:
  Marks(const gpu::Device& device, std::initializer_list<Mark> wanted) {
    for (const Mark mark : wanted) at(mark).emplace(device, gpu::Timing::kOn);
  }
  /// Records the mark, if it is wanted. Throws GpuError.
  void record(Mark mark, const gpu::StreamRef& stream) {
    if (!at(mark).has_value()) return;
    at(mark)->record(stream);
    // release: who sees the mark may use its event.
    recorded_.fetch_or(bit(mark), std::memory_order_release);
  }
  /// Returns whether the mark was recorded since clear().
  [[nodiscard]] bool has(Mark mark) const noexcept {
    return (recorded_.load(std::memory_order_acquire) & bit(mark)) != 0;
  }
  void clear() noexcept { recorded_.store(0, std::memory_order_relaxed); }
  /// The event of a mark that is wanted.
  [[nodiscard]] const gpu::Event& operator[](Mark mark) const {
    return *events_[static_cast<std::size_t>(mark)];
  }

 private:
  std::optional<gpu::Event>& at(Mark mark) { return events_[static_cast<std::size_t>(mark)]; }
  static unsigned bit(Mark mark) noexcept { return 1U << static_cast<unsigned>(mark); }

  std::array<std::optional<gpu::Event>, 7> events_;
  std::atomic<unsigned> recorded_{0};
};

/// Which part of a sampled pair of steps a step is.
enum class StepPart : std::uint8_t { kNone, kFirst, kSecond };

/// What reader and copier write. Goes with the batch from the pinned slot to the device slot.
struct StagedRecord {
  // By the observers: what they want, and their own notes.
  std::array<Marks*, 2> marks{};  // of the stats, of the trace
  StepTiming* timing = nullptr;
  TracedBatch* traced = nullptr;
  std::uint64_t range = 0;  // a profiler's, which is open; 0: none
  StepPart part = StepPart::kNone;
  bool is_last = false;       // of its epoch
  bool has_failures = false;  // samples that were left out
  std::size_t attempted = 0;  // samples, failed ones included
  BatchId batch;
  std::uint64_t generation = 0;  // the consumer's request that it serves
  // By the reader.
  std::size_t reader = 0;
  Stretch read;
  ReadCost cost;
  // By the copier.
  Stretch wait_for_slot;
  std::size_t slot = 0;  // the device slot's number
  std::size_t bytes = 0;

  /// Records the mark for those who want it. Throws GpuError.
  void mark(Mark which, const gpu::StreamRef& stream) {
    for (Marks* const one : marks) {
      if (one != nullptr) one->record(which, stream);
    }
  }
};

/// What the consumer and its lease write, which may be on another CPU than the copier: in a cache
/// line of its own.
struct alignas(64) UsedRecord {
  Duration busy = Duration::zero();     // if no stream is bound: the host's work on the batch
  TimePoint step_end;                   // likewise
  Duration starved = Duration::zero();  // the host's wait for the batch
  PassId pass{};
  bool is_own_time = false;  // its clock is that of the stages and the device
  bool is_used = false;      // bound to a stream
  bool was_idle = false;     // the stream had nothing left to do when the step ended
  bool awaits_next = false;  // the step has ended before the next batch was asked for
  bool is_done = false;      // released, not abandoned
  bool ended_in_own_time = false;
};

/// The instants and marks of one batch.
struct BatchRecord : StagedRecord, UsedRecord {};

/// Is told what happens to batches, by the owner of each. Thread-safe. No event throws, allocates
/// or waits, except in a profiler's library.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  virtual void read_begins(BatchRecord& /*batch*/) noexcept {}
  virtual void read(BatchRecord& /*batch*/) noexcept {}
  virtual void copy_begins(BatchRecord& /*batch*/) noexcept {}
  virtual void copied(BatchRecord& /*batch*/) noexcept {}
  virtual void handed_out(BatchRecord& /*batch*/) noexcept {}
  virtual void used(BatchRecord& /*batch*/) noexcept {}
  virtual void step_ended(BatchRecord& /*batch*/) noexcept {}
  virtual void given_back(BatchRecord& /*batch*/) noexcept {}
  virtual void abandoned(BatchRecord& /*batch*/) noexcept {}
};

}  // namespace leat::feeder
