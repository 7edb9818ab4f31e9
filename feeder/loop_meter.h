// LoopMeter measures what waiting for data costs a loop, whether Leat makes its batches or not.
//
// Example
//   leat::feeder::LoopMeter meter;
//   for (meter.asks(stream); auto batch = loader.next(); meter.asks(stream)) {
//     meter.got();
//     train_step(stream, *batch);
//   }
//   meter.ends();
//   std::puts(meter.figures().sentence().c_str());
//
// A step lasts from one request for a batch to the next request. Its wait lasts until the loop has
// the batch. The first step of an iteration includes the start of the loader, such as of its
// workers: the first wait is a figure of its own, and is in no other figure.
//
// On a device the host's wait says little, because the host runs ahead. So two timed events
// surround the wait on the loop's stream. If the device is busy until the loop has the batch, both
// are reached together. Else the time between them is the gap: the device had no work of this loop,
// except what the loader enqueued on the stream. One step in LoopMeterOptions::sample_every is
// sampled, at irregular distances, and its events are read later: nothing waits for the device.
//
// One thread or fiber at a time calls asks(), got(), ends() and wants_stream(), each iteration
// under one clock. figures() is thread-safe. A step allocates nothing once the device is known. If
// the device fails, the meter throws nothing: it measures the host from then on, and says why
// (LoopFigures::device_error).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "leat/feeder/stats.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// What a LoopMeter measures.
struct LoopMeterOptions {
  /// On average, one step in this many is measured on the device; 0: none.
  std::size_t sample_every = 16;
};

/// A snapshot of a LoopMeter's measurements. A value. Times are in seconds. Quantiles are of the
/// latest kLatestSteps steps or samples, sums and counts of all.
struct LoopFigures {
  std::uint64_t iterations = 0;  // iterations in which the loop got a batch
  Quantiles first_wait;          // the host's waits for the first batch of an iteration
  std::uint64_t steps = 0;       // complete steps, except the first of each iteration
  Quantiles wait;                // the host's waits for a batch
  double wait_sum = 0;
  Quantiles step;  // the host's steps, waits included
  double step_sum = 0;
  std::uint64_t sampled = 0;  // steps that were measured on the device
  Quantiles gap;              // the device's idle time across a wait
  double gap_sum = 0;
  Quantiles sampled_step;  // sampled steps on the device, gaps included
  double sampled_step_sum = 0;
  std::string device_error;  // why the device is no longer measured; empty if it is

  /// Returns whether steps were measured on the device.
  [[nodiscard]] bool has_device() const noexcept { return sampled > 0; }
  /// Returns the share of the steps' time that data costs, from 0 to 1: the device's gaps or, while
  /// no step was measured on a device, the host's waits. 0 without steps.
  [[nodiscard]] double share() const noexcept;
  /// Returns one sentence: what data costs, in shares of the step and in time.
  [[nodiscard]] std::string sentence() const;
  /// Returns the quantiles as a table, then the sentence, in several lines.
  [[nodiscard]] std::string table() const;
};

/// Measures a loop. Several iterations (epochs) add up. Neither copied nor moved.
class LoopMeter {
 public:
  /// Allocates what the host's measurements need. Throws std::bad_alloc.
  explicit LoopMeter(const LoopMeterOptions& options = {});
  LoopMeter(const LoopMeter&) = delete;
  LoopMeter& operator=(const LoopMeter&) = delete;
  ~LoopMeter();

  /// Returns whether the next asks() uses the loop's stream. If getting the stream is expensive,
  /// omit it while this returns false.
  [[nodiscard]] bool wants_stream() const noexcept;
  /// Notes that the loop asks for its next batch; the step before ends. Measures the host alone.
  void asks();
  /// As above, for a loop that works on `stream`. `stream` must exist until the next call of asks()
  /// or ends(). The events are made for the device of the first stream, and anew for another
  /// device. A step is not sampled if its stream is being captured, or if the next step has another
  /// stream. May wait for room in the queue of a host device's stream, as any work may.
  void asks(const gpu::StreamRef& stream);
  /// Notes that the loop has its batch. Has no effect if none was asked for.
  void got();
  /// Notes that the iteration is over, or the loop was left. The step in progress does not count.
  /// Has no effect between iterations.
  void ends();

  /// Returns the figures so far. Reads the events that the device has reached; never waits.
  /// Thread-safe.
  [[nodiscard]] LoopFigures figures();

 private:
  struct State;
  void asks_on(const gpu::StreamRef* stream);

  const std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
