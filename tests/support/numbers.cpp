#include "tests/support/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/plan/sampler.h"

namespace leat::support {

std::uint8_t pattern_byte(std::uint64_t number, std::size_t position) noexcept {
  return static_cast<std::uint8_t>(number * 167 + position * 29 + 17);
}

Numbers::Numbers(NumbersOptions options)
    : options_(std::move(options)),
      fields_{
          {"number", feeder::DType::kInt64, {}},
          {"pattern", feeder::DType::kUint8, {static_cast<std::int64_t>(options_.pattern_bytes)}}} {
}

void Numbers::read(std::uint64_t index, feeder::Sample& out) const {
  reads_.fetch_add(1);
  if (options_.read_time > Duration::zero()) sleep_for(options_.read_time);
  if (options_.on_read) options_.on_read(index);
  out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
  for (std::size_t i = 0; i < options_.pattern_bytes; ++i) {
    out.as<std::uint8_t>(1)[i] = pattern_byte(index, i);
  }
}

std::size_t Numbers::bytes() const noexcept { return fields_[0].bytes() + fields_[1].bytes(); }

NumbersView::NumbersView(feeder::Lease& batch)
    : numbers_(batch["number"].data<std::int64_t>()),
      patterns_(batch["pattern"].data<std::uint8_t>()),
      count_(batch.size()),
      pattern_bytes_(static_cast<std::size_t>(batch["pattern"].shape()[1])) {}

std::vector<std::uint64_t> NumbersView::samples() const {
  std::vector<std::uint64_t> found;
  for (std::size_t i = 0; i < count_; ++i) {
    const auto number = static_cast<std::uint64_t>(numbers_[i]);
    for (std::size_t j = 0; j < pattern_bytes_; ++j) {
      if (patterns_[i * pattern_bytes_ + j] == pattern_byte(number, j)) continue;
      ADD_FAILURE() << "sample " << number << " of the batch has a wrong byte at " << j;
      break;
    }
    found.push_back(number);
  }
  return found;
}

std::vector<std::uint64_t> expected_samples(const feeder::Dataset& data,
                                            const feeder::PrefetcherOptions& options,
                                            std::uint64_t epoch, std::uint64_t batch) {
  const feeder::Sampler sampler = feeder::sampler_of(data, options.order, options.seed);
  const std::uint64_t first = batch * options.batch_size;
  const std::uint64_t end = std::min<std::uint64_t>(first + options.batch_size, data.size());
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = first; i < end; ++i) samples.push_back(sampler.at(epoch, i));
  return samples;
}

std::vector<std::uint64_t> expected_samples(const feeder::Dataset& data,
                                            const feeder::PrefetcherOptions& options,
                                            const feeder::Lease& batch) {
  return expected_samples(data, options, batch.epoch(), batch.index());
}

void launch_check(const gpu::StreamRef& stream, feeder::Lease& batch,
                  std::vector<std::uint64_t> want, Duration length) {
  batch.on(stream);
  stream.launch_host([view = NumbersView(batch), want = std::move(want), length] {
    EXPECT_EQ(view.samples(), want) << "when the kernel started";
    if (length == Duration::zero()) return;
    sleep_for(length);
    EXPECT_EQ(view.samples(), want) << "when the kernel ended: overwritten while in use";
  });
}

}  // namespace leat::support
