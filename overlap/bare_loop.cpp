#include "leat/overlap/bare_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>

#include "leat/feeder/random.h"

namespace overlap {
namespace {

using leat::gpu::Event;
using leat::gpu::Timing;

// Work is timed in kTimes trains of about kTrain seconds, so that the device never waits for the
// host. A train has at most kMostInTrain pieces of work. Copies are also limited by their bytes,
// because they take a CPU even in virtual time.
constexpr double kTrain = 20e-3;
constexpr double kMostInTrain = 64;
constexpr std::size_t kMostBytesInTrain = 2 * kPeakBytes;
// A section of the loop without feeding takes about kSection seconds.
constexpr double kSection = 50e-3;
constexpr double kMostSections = 64;

constexpr int kTouched = 0x5A;

double seconds_between(const Event& start, const Event& end) {
  return std::chrono::duration<double>(leat::gpu::elapsed(start, end)).count();
}

// Returns the seconds that `work`, enqueued on `stream`, takes on an idle device: the mean of the
// fastest train. A train has at most `most` pieces of work.
template <class Work>
double time_alone(const leat::gpu::Stream& stream, double most, const Work& work,
                  const Report& report) {
  const Event start(stream.device(), Timing::kOn);
  const Event end(stream.device(), Timing::kOn);
  const auto train = [&](std::uint64_t pieces) {
    start.record(stream);
    for (std::uint64_t piece = 0; piece < pieces; ++piece) work();
    end.record(stream);
    end.sync();
    return seconds_between(start, end) / static_cast<double>(pieces);
  };
  train(1);  // warm-up
  const double one = train(1);
  if (one <= 0) return 0;
  const auto pieces = static_cast<std::uint64_t>(std::clamp(kTrain / one, 1.0, most));
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t done = 1; done <= kTimes; ++done) {
    best = std::min(best, train(pieces));
    report(done);
  }
  return best;
}

double most_copies(std::size_t bytes) {
  return std::clamp(static_cast<double>(kMostBytesInTrain) / static_cast<double>(bytes), 1.0,
                    kMostInTrain);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Untouched pages are all one zero page, which stays in a CPU's cache, so copies of them are faster
// than copies of a batch.
void touch(std::span<std::byte> memory) { std::memset(memory.data(), kTouched, memory.size()); }

}  // namespace

double link_peak(const leat::gpu::Device& device, const Report& report) {
  const leat::gpu::PinnedBuffer from(device, kPeakBytes);
  const leat::gpu::DeviceBuffer to(device, kPeakBytes);
  const leat::gpu::Stream stream(device);
  const auto rate = [&](std::size_t bytes, std::uint64_t done_before) {
    touch(from.span().subspan(0, bytes).bytes());
    const auto copy = [&] {
      leat::gpu::copy_async(stream, to.subspan(0, bytes), from.subspan(0, bytes));
    };
    const double time = time_alone(stream, most_copies(bytes), copy,
                                   [&](std::uint64_t done) { report(done_before + done); });
    return time > 0 ? static_cast<double>(bytes) / time : 0;
  };
  constexpr std::size_t kProbe = std::size_t{64} << 10;
  const double probed = rate(kProbe, 0);
  const double bytes = std::min(probed * kTrain, static_cast<double>(kPeakBytes));
  return bytes <= kProbe ? probed : rate(static_cast<std::size_t>(bytes), kTimes);
}

BareLoop::BareLoop(const leat::gpu::Device& device, const Shape& shape,
                   const leat::feeder::Dataset& data, Compute& compute)
    : shape_(shape),
      compute_(compute),
      data_(data),
      pinned_(device, shape.batch_bytes()),
      batch_(device, shape.batch_bytes()),
      copies_(device),
      copied_(device) {
  std::size_t offset = 0;
  for (const leat::feeder::Field& field : data_.fields()) {
    const std::size_t bytes = field.bytes() * shape.batch_size;
    tensors_.push_back(
        {.to = batch_.subspan(offset, bytes), .from = pinned_.subspan(offset, bytes)});
    offset += bytes;
  }
  touch(pinned_.span().bytes());
}

double BareLoop::t_x_alone(const Report& report) {
  const auto copy = [&] { leat::gpu::copy_async(copies_, tensors_); };
  return time_alone(copies_, most_copies(shape_.batch_bytes()), copy, report);
}

double BareLoop::t_c_alone(const Report& report) {
  const auto compute = [&] { compute_.enqueue(); };
  return time_alone(compute_.stream(), kMostInTrain, compute, report);
}

// Enqueues the next section while the device computes the current one. So the device never waits
// for the host, and at most two sections are queued.
double BareLoop::replay(const StepCounts& steps, double t_c, const Report& report) {
  const leat::gpu::Stream& stream = compute_.stream();
  for (std::uint64_t k = 0; k < steps.warm_up; ++k) compute_.enqueue();
  const double most = std::min(kMostSections, static_cast<double>(steps.measured));
  const auto sections = static_cast<std::uint64_t>(
      std::clamp(static_cast<double>(steps.measured) * t_c / kSection, 1.0, most));
  std::vector<Event> ends;
  std::vector<double> times;
  std::uint64_t done = 0;
  const auto end_of = [&](std::uint64_t section) { return steps.measured * section / sections; };
  const auto measure = [&](std::uint64_t section) {
    ends[section].sync();
    const auto count = static_cast<double>(end_of(section) - end_of(section - 1));
    times.push_back(seconds_between(ends[section - 1], ends[section]) / count);
    report(steps.warm_up + end_of(section));
  };
  ends.emplace_back(stream.device(), Timing::kOn);
  ends[0].record(stream);
  for (std::uint64_t section = 1; section <= sections; ++section) {
    for (; done < end_of(section); ++done) compute_.enqueue();
    ends.emplace_back(stream.device(), Timing::kOn);
    ends[section].record(stream);
    if (section > 1) measure(section - 1);
  }
  measure(sections);
  return median(std::move(times));
}

double BareLoop::serial(const StepCounts& steps, const Report& report) {
  const leat::gpu::Stream& stream = compute_.stream();
  const Event start(stream.device(), Timing::kOn);
  const Event end(stream.device(), Timing::kOn);
  for (std::uint64_t k = 0; k < steps.warm_up + steps.measured; ++k) {
    if (k == steps.warm_up) start.record(stream);
    read(k);
    leat::gpu::copy_async(copies_, tensors_);
    copied_.record(copies_);
    copied_.sync();
    compute_.enqueue();
    stream.sync();
    report(k + 1);
  }
  end.record(stream);
  end.sync();
  return seconds_between(start, end) / static_cast<double>(steps.measured);
}

void BareLoop::read(std::uint64_t batch) {
  std::vector<std::span<std::byte>> rooms(tensors_.size());
  std::vector<std::size_t> lengths(tensors_.size());
  for (std::size_t i = 0; i < shape_.batch_size; ++i) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const std::size_t bytes = data_.fields()[t].bytes();
      rooms[t] = tensors_[t].from.subspan(i * bytes, bytes).bytes();
    }
    const std::uint64_t index = (batch * shape_.batch_size + i) % data_.size();
    scratch_.reset();
    leat::feeder::Sample sample(data_.fields(), rooms, lengths, 0, 0,
                                leat::feeder::Random(0, 0, index), scratch_);
    data_.read(index, sample);
  }
}

}  // namespace overlap
