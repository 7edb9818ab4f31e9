// A trace: what each batch went through, and when, for a timeline viewer.
//
// Example
//   const auto trace = std::make_shared<leat::feeder::Trace>();
//   leat::feeder::Prefetcher feed(data, device, {.batch_size = 64, .trace = trace});
//   for (leat::feeder::Lease& batch : feed.epoch(0, stream)) ...
//   stream.sync();
//   trace->save("loop.json");   // to be opened in Perfetto, or in chrome://tracing
//
// There is a track for each reader, for each copier, for each device slot (from the hand-out of its
// batch to the release), and, for each device, one for its copies and one for the work on batches.
// Arrows lead from a batch's read over its copy to the work on it. Counters say how many slots are
// filled, ready and free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace leat::gpu {
class Stream;
}  // namespace leat::gpu

namespace leat::feeder {

class DeviceTrace;
struct LocalRank;

/// Which batches to record.
struct TraceOptions {
  /// Batches of each device that pass by first.
  std::uint64_t skip = 0;
  /// Batches of each device that are recorded then; room for them, and 4 timed events for each, is
  /// made when the prefetcher is. At most 100,000.
  std::size_t batches = 64;
};

/// Records the batches of one prefetcher (PrefetcherOptions::trace). May outlive it. Thread-safe.
///
/// While it records, a batch costs four timed events on the device, and a handful of readings of
/// the clock; bench/feeder/trace_bench.cpp measures it. Without a trace nothing of it is there.
class Trace {
 public:
  /// Throws std::invalid_argument for no batches, or too many.
  explicit Trace(const TraceOptions& options = {});
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  /// What was recorded so far, in the Trace Event Format that Perfetto and Chrome read; times in
  /// microseconds since the prefetcher was made. Work that the device has not done yet is left out:
  /// sync the stream first. Throws GpuError if the device has failed; a host device that was opened
  /// on a fiber has, once its run is over.
  [[nodiscard]] std::string json() const;
  /// Writes that to a file. Throws leat::Error, with the file, if it cannot be written.
  void save(const std::filesystem::path& file) const;

 private:
  friend class SlotRing;
  /// Of the device that `copies` is of. Throws std::invalid_argument for a rank that it has
  /// already.
  [[nodiscard]] std::shared_ptr<DeviceTrace> make(const gpu::Stream& copies, const LocalRank& rank);

  const TraceOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DeviceTrace>> devices_;
};

}  // namespace leat::feeder
