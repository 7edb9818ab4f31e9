// Always true: the members of State in front of `mutex` belong to the loop, and need no lock. The
// device is given work without a lock, because the queue of a host device's stream may be full:
// then the caller parks.
#include "leat/feeder/loop_meter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/stats/batch_record.h"
#include "leat/feeder/stats/latest.h"
#include "leat/feeder/stats/step_sampling.h"
#include "leat/gpu/device.h"

namespace leat::feeder {
namespace {

// In most loops a device is less far behind. If it is further behind, steps go unsampled.
constexpr std::size_t kSamples = 8;

}  // namespace

struct LoopMeter::State {
  enum class Phase : std::uint8_t {
    kOutside,  // of an iteration
    kAsked,    // waits for a batch
    kWorks,    // has one
  };
  // A measurement in seconds, to which values are added.
  struct Times {
    void add(Duration time) noexcept {
      const double seconds = std::max(std::chrono::duration<double>(time).count(), 0.0);
      latest.add(seconds);
      sum += seconds;
      ++count;
    }
    Latest<double> latest;
    double sum = 0;
    std::uint64_t count = 0;
  };

  explicit State(const LoopMeterOptions& options)
      : sample_every(options.sample_every), sampling(options.sample_every, 1) {}

  // The device's measurement is over once it has failed. Who sees that late fails once more.
  [[nodiscard]] bool has_failed() const noexcept { return failed.load(std::memory_order_relaxed); }
  // Called while the exception is handled. Needs the lock.
  void fail() noexcept {
    if (failure == nullptr) failure = std::current_exception();
    failed.store(true, std::memory_order_relaxed);
  }
  // Puts the sample into a list, if there is one.
  void end_sample(std::vector<Marks*>& into) noexcept {
    const std::scoped_lock lock(mutex);
    if (sample != nullptr) into.push_back(sample);  // memory was reserved
    sample = nullptr;
    stream.reset();
  }
  // Records the sample's mark on its stream, or drops the sample.
  void record(Mark mark) {
    if (stream->is_capturing()) {
      end_sample(free);
    } else {
      sample->record(mark, *stream);
    }
  }
  // Calls `act`, which calls the device. Returns normally if the device fails.
  template <class Act>
  void on_device(const Act& act) {
    if (has_failed()) return;
    try {
      act();
    } catch (const std::exception&) {
      const std::scoped_lock lock(mutex);
      fail();
      sample = nullptr;
      stream.reset();
    }
  }
  void make_samples(const gpu::Device& of) {
    std::deque<Marks> fresh;
    for (std::size_t i = 0; i < kSamples; ++i) {
      fresh.emplace_back(
          of, std::initializer_list<Mark>{Mark::kArrived, Mark::kUseBegins, Mark::kUseEnds});
    }
    const std::scoped_lock lock(mutex);
    samples.swap(fresh);
    pending.clear();
    free.clear();
    pending.reserve(kSamples);
    free.reserve(kSamples);
    for (Marks& one : samples) free.push_back(&one);
    device.emplace(of);
  }
  // Reads the samples that the device has reached, without waiting for the others. Needs the lock.
  void collect() noexcept {
    try {
      std::erase_if(pending, [&](Marks* one) {
        const Marks& marks = *one;
        if (!marks[Mark::kUseEnds].is_done()) return false;
        const Duration gap = elapsed(marks[Mark::kArrived], marks[Mark::kUseBegins]);
        const Duration step = elapsed(marks[Mark::kArrived], marks[Mark::kUseEnds]);
        gaps.add(gap);
        sampled_steps.add(step);
        free.push_back(one);
        return true;
      });
    } catch (const std::exception&) {
      fail();
      pending.clear();
    }
  }
  // Takes a sample to record; none if the device has reached none of the earlier ones.
  void begin_sample(const gpu::StreamRef& on) {
    {
      const std::scoped_lock lock(mutex);
      if (free.empty()) collect();
      if (free.empty()) return;
      sample = free.back();
      free.pop_back();
    }
    stream = on;
    record(Mark::kArrived);
  }

  const std::size_t sample_every;
  Phase phase = Phase::kOutside;
  bool is_first = true;  // of the iteration
  TimePoint asked;
  Duration waited = Duration::zero();
  StepSampling sampling;
  std::optional<gpu::Device> device;     // of the samples
  Marks* sample = nullptr;               // of the step in progress, if it is sampled
  std::optional<gpu::StreamRef> stream;  // of that step

  std::atomic<bool> failed{false};
  std::mutex mutex;  // never held across a park; guards what follows
  std::exception_ptr failure;
  std::deque<Marks> samples;
  std::vector<Marks*> free, pending;  // pending: recorded
  Times first_waits, waits, steps, gaps, sampled_steps;
};

LoopMeter::LoopMeter(const LoopMeterOptions& options) : state_(std::make_unique<State>(options)) {}
LoopMeter::~LoopMeter() = default;

bool LoopMeter::wants_stream() const noexcept {
  const State& state = *state_;
  if (state.sample_every == 0 || state.has_failed()) return false;
  return state.phase != State::Phase::kWorks || state.sample != nullptr || state.sampling.is_next();
}

void LoopMeter::asks() { asks_on(nullptr); }
void LoopMeter::asks(const gpu::StreamRef& stream) { asks_on(&stream); }

void LoopMeter::asks_on(const gpu::StreamRef* stream) {
  State& state = *state_;
  const bool ends_step = state.phase == State::Phase::kWorks;
  if (state.sample != nullptr && (!ends_step || stream == nullptr || *stream != *state.stream)) {
    state.end_sample(state.free);
  }
  state.on_device([&] {
    if (state.sample != nullptr) state.record(Mark::kUseEnds);
    if (state.sample != nullptr) state.end_sample(state.pending);
    const bool is_due = ends_step && state.sampling.count() == 0;
    if (stream == nullptr || state.sample_every == 0) return;
    if (!state.device.has_value() || *state.device != stream->device()) {
      state.make_samples(stream->device());
    }
    if (is_due) state.begin_sample(*stream);
  });
  // The meter's own time is in the step, and not in the wait.
  const TimePoint at = now();
  if (ends_step && !state.is_first) {
    const std::scoped_lock lock(state.mutex);
    state.waits.add(state.waited);
    state.steps.add(at - state.asked);
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
  if (state.is_first) {
    const std::scoped_lock lock(state.mutex);
    state.first_waits.add(state.waited);
  }
  if (state.sample != nullptr) state.on_device([&] { state.record(Mark::kUseBegins); });
}

void LoopMeter::ends() {
  State& state = *state_;
  state.end_sample(state.free);
  state.phase = State::Phase::kOutside;
}

LoopFigures LoopMeter::figures() {
  State& state = *state_;
  const auto quantiles = [](const State::Times& of) { return quantiles_of(of.latest.values()); };
  const std::scoped_lock lock(state.mutex);
  state.collect();
  LoopFigures figures{.iterations = state.first_waits.count,
                      .first_wait = quantiles(state.first_waits),
                      .steps = state.steps.count,
                      .wait = quantiles(state.waits),
                      .wait_sum = state.waits.sum,
                      .step = quantiles(state.steps),
                      .step_sum = state.steps.sum,
                      .sampled = state.gaps.count,
                      .gap = quantiles(state.gaps),
                      .gap_sum = state.gaps.sum,
                      .sampled_step = quantiles(state.sampled_steps),
                      .sampled_step_sum = state.sampled_steps.sum,
                      .device_error = {}};
  if (state.failure == nullptr) return figures;
  try {
    std::rethrow_exception(state.failure);
  } catch (const std::exception& failure) {
    figures.device_error = failure.what();
  }
  return figures;
}

}  // namespace leat::feeder
