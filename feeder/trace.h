// A trace: what each batch went through, and when, as a few lines of text or for a timeline viewer.
//
// Example
//   const auto trace = std::make_shared<leat::feeder::Trace>();
//   leat::feeder::Prefetcher feed(data, device, {.batch_size = 64, .trace = trace});
//   for (leat::feeder::Lease& batch : feed.epoch(0, stream)) ...
//   stream.sync();
//   std::fputs(trace->timeline().c_str(), stdout);   // three steps, drawn in the terminal:
//
//     copy    =====2======           #####3######            =====4=====
//     compute ###########1###########===========2============###########3###########
//     time    |0 ms       |0.5       |1          |1.5        |2         |2.5
//
//   trace->save("loop.json");   // to be opened in Perfetto, or in chrome://tracing
//
// There, the timeline has a track for each reader, for each copier and for each device slot (from
// the hand-out of its batch to the release), and for each device a track for its copies and one for
// the work on batches. Arrows lead from a batch's read over its copy to the work on it. Counters
// show how many slots are filled, ready and free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "leat/csp/clock.h"

namespace leat::gpu {
class Stream;
}  // namespace leat::gpu

namespace leat::feeder {

class DeviceTrace;
struct LocalRank;

/// Which batches to record.
struct TraceOptions {
  /// How many batches of each device are not recorded at the beginning.
  std::uint64_t skip = 0;
  /// How many batches of each device are recorded after these, 1 to 100,000. The prefetcher's
  /// constructor allocates their memory, and 4 timed events for each. (The host device allocates
  /// some memory when such an event is first recorded.)
  std::size_t batches = 64;
};

/// How Trace::timeline() draws.
struct TimelineOptions {
  std::size_t steps = 3;  // at least 1
  /// The time that the width stands for: timelines with the same length have the same scale. 0: the
  /// steps' own.
  Duration length = Duration::zero();
  std::size_t columns = 80;  // at least 40
};

/// Records one prefetcher's batches (PrefetcherOptions::trace). May outlive the prefetcher.
/// Thread-safe.
///
/// A recorded batch costs four timed events on the device and some readings of the clock;
/// bench/feeder/trace_bench.cpp measures the cost. Without a trace there is no cost.
class Trace {
 public:
  /// Throws std::invalid_argument for a number of batches that is not allowed.
  explicit Trace(const TraceOptions& options = {});
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  /// Returns the batches recorded so far, in the Trace Event Format of Perfetto and Chrome. Times
  /// are in microseconds since the prefetcher was made. Work that the device has not finished is
  /// left out: sync the stream first. Throws GpuError if the device has failed; a host device that
  /// was opened on a fiber fails when that fiber's run() ends.
  [[nodiscard]] std::string json() const;
  /// Returns some successive steps of each device as lines of text: bars for the copies and for the
  /// work on batches, and a time axis. A bar's number is that of its batch, counted from the first
  /// one that is worked on. Of all stretches of so many steps that were recorded, the one with the
  /// median length is drawn. It begins where a step ends. In ASCII unless the locale (LC_ALL,
  /// LC_CTYPE or LANG) is a UTF-8 one. If too few batches were used on streams, a line says so.
  /// Sync the stream first. Throws as json() does, and std::invalid_argument for no steps or less
  /// than 40 columns.
  [[nodiscard]] std::string timeline(const TimelineOptions& options = {}) const;
  /// Writes json() to a file. Throws leat::Error, naming the file, if it cannot be written.
  void save(const std::filesystem::path& file) const;

 private:
  friend class SlotRing;
  /// Returns the trace of the device of stream `copies`. Throws std::invalid_argument if that rank
  /// is registered already.
  [[nodiscard]] std::shared_ptr<DeviceTrace> make(const gpu::Stream& copies, const LocalRank& rank);

  const TraceOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DeviceTrace>> devices_;
};

}  // namespace leat::feeder
