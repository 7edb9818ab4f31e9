// What data costs a loop: any loop that asks something for its next batch, of Leat or not.
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
// A step lasts from the moment when a batch is asked for to the moment when the next one is. Its
// wait lasts until the loop has the batch. The first step of an iteration has the start of
// what makes batches in it, such as its workers: the first wait is told apart, and is in no other
// figure.
//
// On a device the host's wait says little, because the host runs ahead. So two timed events
// surround the wait on the loop's stream. If the device is busy until the loop has the batch, both
// are reached together. Else the time between them is the gap: the device had nothing of this loop
// to do but what the loader enqueued on the stream. One step in LoopMeterOptions::sample_every is
// sampled, at irregular distances, and its events are read later: nothing waits for the device.
//
// One thread or fiber at a time calls asks(), got(), ends() and wants_stream(), each iteration
// under one clock; figures() is thread-safe beside them. A step allocates nothing once the device
// is known. A failure of the device is the loop's to see: the meter throws none, measures
// the host from then on, and says so (LoopFigures::device_error).
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
  /// The device is measured in one step in this many, on average; 0: never.
  std::size_t sample_every = 16;
};

/// A snapshot of a LoopMeter's measurements. A value. Times are in seconds. Quantiles are of the
/// latest kLatestSteps steps or samples, sums and counts of all.
struct LoopFigures {
  std::uint64_t iterations = 0;  // in which the loop got a batch
  Quantiles first_wait;          // of the host, for the first batch of each of them
  std::uint64_t steps = 0;       // complete ones, without the first of each iteration
  Quantiles wait;                // of the host, for a batch
  double wait_sum = 0;
  Quantiles step;  // of the host, wait included
  double step_sum = 0;
  std::uint64_t sampled = 0;  // steps that were measured on the device
  Quantiles gap;              // in which the device was idle across the wait
  double gap_sum = 0;
  Quantiles sampled_step;  // of the sampled steps, on the device, the gap included
  double sampled_step_sum = 0;
  std::string device_error;  // why the device is measured no longer; empty: it is

  /// Whether steps were measured on the device.
  [[nodiscard]] bool has_device() const noexcept { return sampled > 0; }
  /// The share of the steps' time that data costs, from 0 to 1: the device's gaps, or, while no
  /// step was measured on a device, the host's waits. 0 without steps.
  [[nodiscard]] double share() const noexcept;
  /// One sentence: what data costs, in shares of the step and in time.
  [[nodiscard]] std::string sentence() const;
  /// The quantiles as a table, then the sentence, in several lines.
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

  /// Whether the next asks() has a use for the loop's stream. For callers to whom the stream has a
  /// price: while this returns false, asks() without a stream does as well.
  [[nodiscard]] bool wants_stream() const noexcept;
  /// The loop asks for its next batch; the step before ends. Measures the host alone.
  void asks();
  /// The same, of a loop whose work runs on `stream`, which must exist until the next call of
  /// asks() or ends(). The events are made for the device of the first stream, and anew for
  /// another device. A step whose stream is being captured, or is not the stream of the next step,
  /// is not sampled. May wait for room in the queue of a host device's stream, as any work may.
  void asks(const gpu::StreamRef& stream);
  /// The loop has its batch. No effect if none was asked for.
  void got();
  /// The iteration is over, or the loop was left: the step in progress counts for nothing. No
  /// effect between iterations.
  void ends();

  /// Returns the figures so far. Reads the events that the device has reached, and waits for none.
  /// Thread-safe.
  [[nodiscard]] LoopFigures figures();

 private:
  struct State;
  void asks_on(const gpu::StreamRef* stream);

  const std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
