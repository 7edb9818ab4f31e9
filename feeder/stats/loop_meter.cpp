// Always true: the members of State belong to the loop, and need no lock. The device is given work
// without a lock, because the queue of a host device's stream may be full: then the caller parks.
#include "leat/feeder/loop_meter.h"

#include <exception>
#include <optional>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/clock.h"
#include "leat/feeder/stats/loop_samples.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"

namespace leat::feeder {

/// What the loop's own calls use.
struct LoopMeter::State {
  enum class Phase : std::uint8_t {
    kOutside,  // of an iteration
    kAsked,    // waits for a batch
    kWorks,    // has one
  };

  explicit State(const LoopMeterOptions& options)
      : sample_every(options.sample_every), until_sample(options.sample_every) {}

  // Whether the step that begins is sampled. The distances are random, 1 to 2n-1, for the same
  // reason as those of StatsCollector::next_part. A step that is not to be sampled is not made up
  // for: the next one would be of another kind.
  [[nodiscard]] bool is_due() noexcept {
    if (sample_every == 0 || --until_sample > 0) return false;
    until_sample = 1 + mix(++drawn * kRandomStep) % (2 * sample_every - 1);
    return true;
  }
  void drop_sample() noexcept {
    if (sample.has_value()) samples.give_back(*std::move(sample));
    sample.reset();
    stream.reset();
  }
  // Records the sample's event on its stream, or drops the sample.
  void record(gpu::Event LoopSample::*event) {
    if (stream->is_capturing()) {
      drop_sample();
    } else {
      ((*sample).*event).record(*stream);
    }
  }
  // Calls `act`, which calls the device. Returns normally if the device fails.
  template <class Act>
  void on_device(const Act& act) {
    if (samples.has_failed()) return;
    try {
      act();
    } catch (const std::exception&) {
      samples.fail();
      sample.reset();
      stream.reset();
    }
  }

  const std::size_t sample_every;
  Phase phase = Phase::kOutside;
  bool is_first = true;  // of the iteration
  TimePoint asked;
  Duration waited = Duration::zero();
  std::uint64_t until_sample;
  std::uint64_t drawn = 0;
  std::optional<gpu::Device> device;     // of the samples
  std::optional<LoopSample> sample;      // of the step in progress, if it is sampled
  std::optional<gpu::StreamRef> stream;  // of that step
  LoopSamples samples;
};

LoopMeter::LoopMeter(const LoopMeterOptions& options) : state_(std::make_unique<State>(options)) {}
LoopMeter::~LoopMeter() = default;

bool LoopMeter::wants_stream() const noexcept {
  const State& state = *state_;
  if (state.sample_every == 0 || state.samples.has_failed()) return false;
  return state.phase != State::Phase::kWorks || state.sample.has_value() || state.until_sample == 1;
}

void LoopMeter::asks() { asks_on(nullptr); }
void LoopMeter::asks(const gpu::StreamRef& stream) { asks_on(&stream); }

void LoopMeter::asks_on(const gpu::StreamRef* stream) {
  State& state = *state_;
  const bool ends_step = state.phase == State::Phase::kWorks;
  if (!ends_step) state.drop_sample();
  if (state.sample.has_value() && (stream == nullptr || *stream != *state.stream)) {
    state.drop_sample();
  }
  state.on_device([&] {
    if (state.sample.has_value()) {
      state.record(&LoopSample::asked_next);
      if (state.sample.has_value()) state.samples.add(*std::move(state.sample));
      state.sample.reset();
      state.stream.reset();
    }
    const bool is_due = ends_step && state.is_due();
    if (stream == nullptr || state.sample_every == 0) return;
    if (!state.device.has_value() || *state.device != stream->device()) {
      state.samples.make(stream->device());
      state.device.emplace(stream->device());
    }
    if (!is_due) return;
    state.sample = state.samples.take();
    if (!state.sample.has_value()) return;
    state.stream = *stream;
    state.record(&LoopSample::asked);
  });
  // The meter's own time is in the step, and not in the wait.
  const TimePoint at = now();
  if (ends_step && !state.is_first) {
    state.samples.add_step(state.waited, at - state.asked);
  }
  state.is_first = !ends_step;
  state.phase = State::Phase::kAsked;
  state.asked = at;
}

void LoopMeter::got() {
  State& state = *state_;
  if (state.phase != State::Phase::kAsked) return;
  state.waited = now() - state.asked;
  state.phase = State::Phase::kWorks;
  if (state.is_first) state.samples.add_first(state.waited);
  if (state.sample.has_value()) state.on_device([&] { state.record(&LoopSample::got); });
}

void LoopMeter::ends() {
  State& state = *state_;
  state.drop_sample();
  state.phase = State::Phase::kOutside;
}

LoopFigures LoopMeter::figures() { return state_->samples.figures(); }

}  // namespace leat::feeder
