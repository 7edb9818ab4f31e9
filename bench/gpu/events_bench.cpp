// What recording an event, and having another stream wait for it on the device, costs the caller:
// through Leat's types, and with CUDA's own calls. Both in turns within each iteration, so that the
// ratio is of the same moments; on a device that is not CUDA's there is nothing to compare with,
// and the label says so.
//
//   record_wait   event.record(producer); consumer.wait(event)
//   record, wait  one of the two
//
// Counters: leat_ns and raw_ns, medians of an operation; ratio, the median of leat / raw; and what
// Leat allocates for each operation. The time of an iteration is Leat's share.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/gpu/cuda/raw_events.h"
#include "bench/gpu/device_main.h"
#include "bench/gpu/hold.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace {

using namespace bench;

constexpr int kOperations = 200;  // of a sample: the streams' queues never fill

enum class What : std::uint8_t { kRecordWait, kRecord, kWait };

/// The same as cuda::RawEvents, by Leat.
class LeatEvents {
 public:
  explicit LeatEvents(const leat::gpu::Device& device)
      : producer_(device), consumer_(device), event_(device) {}

  void record_and_wait(int pairs) {
    for (int i = 0; i < pairs; ++i) {
      event_.record(producer_);
      consumer_.wait(event_);
    }
  }
  void record(int times) {
    for (int i = 0; i < times; ++i) event_.record(producer_);
  }
  void wait(int times) {
    for (int i = 0; i < times; ++i) consumer_.wait(event_);
  }
  void sync() {
    producer_.sync();
    consumer_.sync();
  }

  /// Whether a wait does wait, and no longer than for its event.
  [[nodiscard]] bool works(Hold& hold) {
    const leat::gpu::Event end(event_.device());
    hold.close(producer_);
    record_and_wait(1);
    end.record(consumer_);
    const bool waits = !end.is_done();
    hold.open();
    end.sync();
    return waits && event_.is_done();
  }

 private:
  const leat::gpu::Stream producer_;
  const leat::gpu::Stream consumer_;
  const leat::gpu::Event event_;
};

template <class Events>
void call(Events& events, What what) {
  switch (what) {
    case What::kRecordWait: events.record_and_wait(kOperations); break;
    case What::kRecord: events.record(kOperations); break;
    case What::kWait: events.wait(kOperations); break;
  }
}

/// Seconds that enqueueing took; the device has run it all before this returns.
template <class Events>
double sample(Events& events, What what) {
  events.record(1);  // so that waits have something to wait for
  const leat::TimePoint start = leat::SteadyClock::instance().now();
  call(events, what);
  const double took = seconds(leat::SteadyClock::instance().now() - start);
  events.sync();
  return took;
}

void run(benchmark::State& state, const leat::gpu::Device& device, What what) {
  LeatEvents leat(device);
  Hold hold(device);
  if (!leat.works(hold)) return fail(state, "the stream did not wait for the event");
  fill_pools(device, hold);
  std::unique_ptr<cuda::RawEvents> raw;
  if (device.capabilities().cuda_kernels) {
    raw = cuda::make_raw_events(number_of(device));
  } else {
    state.SetLabel("no CUDA calls to compare with on " + device.name());
  }
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
  for (auto* const samples : {&ours, &theirs, &ratios}) {
    samples->reserve(static_cast<std::size_t>(state.max_iterations));
  }
  constexpr int kWarmUp = 10;
  for (int i = 0; i < kWarmUp; ++i) {
    static_cast<void>(sample(leat, what));
    if (raw) static_cast<void>(sample(*raw, what));
  }
  const Allocations before;
  bool leat_first = true;
  while (state.KeepRunning()) {
    double their_time = 0;
    if (raw && !leat_first) their_time = sample(*raw, what);
    const double our_time = sample(leat, what);
    if (raw && leat_first) their_time = sample(*raw, what);
    leat_first = !leat_first;
    state.SetIterationTime(our_time);
    ours.push_back(our_time);
    if (raw) {
      theirs.push_back(their_time);
      ratios.push_back(our_time / their_time);
    }
  }
  count_allocations(state, device, before, static_cast<double>(ours.size()) * kOperations);
  state.counters["leat_ns"] = 1e9 * quantile(ours, 0.5) / kOperations;
  if (!raw) return;
  state.counters["raw_ns"] = 1e9 * quantile(theirs, 0.5) / kOperations;
  state.counters["ratio"] = quantile(ratios, 0.5);
}

void add(const leat::gpu::Device& device, const Options& options) {
  const auto add_row = [&](const char* name, What what) {
    benchmark::RegisterBenchmark(name,
                                 [device, what](benchmark::State& state) {
                                   guarded(state, [&] { run(state, device, what); });
                                 })
        ->UseManualTime()
        ->Iterations(options.quick ? 50 : 500)
        ->Unit(benchmark::kMicrosecond);
  };
  add_row("record_wait", What::kRecordWait);
  add_row("record", What::kRecord);
  add_row("wait", What::kWait);
}

}  // namespace

int main(int argc, char** argv) { return run_on_device(argc, argv, &add); }
