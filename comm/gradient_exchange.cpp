#include "leat/comm/gradient_exchange.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/comm/exchange/exchange.h"
#include "leat/comm/tuner.h"

namespace leat::comm {

// Makes the exchange anew whenever its tuner changes the setting, on all ranks before one step.
class GradientExchange::Tuning {
 public:
  Tuning(const Communicator& communicator, std::vector<Gradient> gradients, ExchangeOptions options)
      : control_(communicator.duplicate()),
        gradients_(std::move(gradients)),
        options_(std::move(options)) {}

  /// Between two steps, on all ranks.
  void change(std::unique_ptr<Exchange>& exchange) {
    if (is_over_) return;
    const TimePoint now = control_.transport()->world().time();
    const bool is_idle = exchange->is_idle();
    Tuner& tuner = *options_.tuner;
    // The first step after a change is dropped. So is one with a setting that could not be made.
    const bool counts = began_.has_value() && !std::exchange(is_new_, false);
    if (control_.rank() == 0 && counts && current() == tuner.setting()) {
      tuner.measured(now - *began_);
    }
    // What rank 0 says, and whether a rank has results to wait for yet.
    std::array<std::int64_t, 4> said = {0, 0, 0, is_idle ? 0 : 1};
    if (control_.rank() == 0) {
      const auto [partition, credit] = tuner.setting();
      said = {static_cast<std::int64_t>(partition), static_cast<std::int64_t>(credit),
              tuner.is_done() ? 1 : 0, said[3]};
    }
    control_.all_reduce(said, Reduction::kMax).await();
    began_ = control_.transport()->world().time();
    const Tuner::Setting wanted = {static_cast<std::size_t>(said[0]),
                                   static_cast<std::size_t>(said[1])};
    if (said[3] != 0) return;
    is_over_ = said[2] != 0;
    if (wanted == current()) return;
    options_.partition_bytes = wanted.partition_bytes;
    options_.credit_bytes = wanted.credit_bytes;
    is_new_ = true;
    auto made = std::make_unique<Exchange>(control_, gradients_, options_);
    const std::scoped_lock lock(mutex_);
    add(before_, exchange->stats());
    exchange->wait_for_streams();
    exchange = std::move(made);
  }
  [[nodiscard]] ExchangeStats stats(const std::unique_ptr<Exchange>& exchange) const {
    const std::scoped_lock lock(mutex_);
    ExchangeStats sum = exchange->stats();
    add(sum, before_);
    return sum;
  }

 private:
  [[nodiscard]] Tuner::Setting current() const noexcept {
    return {options_.partition_bytes, options_.credit_bytes};
  }
  static void add(ExchangeStats& to, const ExchangeStats& more) {
    to.steps += more.steps;
    to.pieces += more.pieces;
    to.bytes += more.bytes;
    to.time += more.time;
    to.exposed += more.exposed;
    to.busy += more.busy;
    to.hidden += more.hidden;
    if (more.longest_wait <= to.longest_wait) return;
    to.longest_wait = more.longest_wait;
    to.longest_awaited = more.longest_awaited;
  }

  const Communicator control_;
  const std::vector<Gradient> gradients_;
  ExchangeOptions options_;
  std::optional<TimePoint> began_;  // the step
  bool is_new_ = true;
  bool is_over_ = false;
  mutable std::mutex mutex_;  // of the exchange as stats() finds it
  ExchangeStats before_;      // of the exchanges that are gone
};

GradientExchange::GradientExchange(const Communicator& communicator,
                                   std::vector<Gradient> gradients, ExchangeOptions options) {
  if (options.tuner != nullptr) {
    if (options.policy == Policy::kBucketed) {
      throw std::invalid_argument(
          "leat: GradientExchange: a tuner chooses the size of pieces, and buckets have none; use "
          "another policy");
    }
    options.partition_bytes = options.tuner->setting().partition_bytes;
    options.credit_bytes = options.tuner->setting().credit_bytes;
  }
  exchange_ = std::make_unique<Exchange>(communicator, gradients, options);
  if (options.tuner == nullptr) return;
  tuning_ = std::make_unique<Tuning>(communicator, std::move(gradients), std::move(options));
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::broadcast(std::span<const Gradient> tensors, int root) {
  exchange_->broadcast(tensors, root);
}

void GradientExchange::begin_step(std::uint64_t samples) {
  if (tuning_ != nullptr) tuning_->change(exchange_);
  exchange_->begin_step(samples);
}

void GradientExchange::ready(std::size_t index, const gpu::StreamRef& stream) {
  exchange_->ready(index, &stream);
}

void GradientExchange::ready(std::size_t index) { exchange_->ready(index, nullptr); }

void GradientExchange::end_backward() { exchange_->end_backward(); }

bool GradientExchange::await(std::size_t index, const gpu::StreamRef& stream) {
  return exchange_->await(index, &stream);
}

bool GradientExchange::await(std::size_t index) { return exchange_->await(index, nullptr); }

void GradientExchange::await_all(const gpu::StreamRef& stream) { exchange_->await_all(&stream); }

void GradientExchange::await_all() { exchange_->await_all(nullptr); }

ExchangeStats GradientExchange::stats() const {
  return tuning_ != nullptr ? tuning_->stats(exchange_) : exchange_->stats();
}

std::size_t GradientExchange::size() const noexcept { return exchange_->size(); }

std::string ExchangeStats::report() const {
  const auto percent = [](Duration part, Duration whole) {
    return whole > Duration::zero()
               ? 100 * static_cast<double>(part.count()) / static_cast<double>(whole.count())
               : 0.0;
  };
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(),
                "%llu steps, %llu pieces, %.1f MB: exposed communication %.1f %%, the rest of the "
                "step %.1f %%; the link was busy for %.1f %%, of which %.1f %% were hidden",
                static_cast<unsigned long long>(steps), static_cast<unsigned long long>(pieces),
                static_cast<double>(bytes) / 1e6, percent(exposed, time),
                time > Duration::zero() ? 100 - percent(exposed, time) : 0.0, percent(busy, time),
                percent(hidden, busy));
  std::string report = text.data();
  if (!longest_awaited.empty()) {
    std::snprintf(text.data(), text.size(), "; waited longest for \"%.200s\": %.3f ms",
                  longest_awaited.c_str(),
                  std::chrono::duration<double, std::milli>(longest_wait).count());
    report += text.data();
  }
  return report;
}

}  // namespace leat::comm
