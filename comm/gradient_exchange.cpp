#include "leat/comm/gradient_exchange.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "leat/comm/exchange/exchange.h"

namespace leat::comm {

GradientExchange::GradientExchange(const Communicator& communicator,
                                   std::vector<Gradient> gradients, ExchangeOptions options)
    : exchange_(
          std::make_unique<Exchange>(communicator, std::move(gradients), std::move(options))) {}

GradientExchange::~GradientExchange() = default;

void GradientExchange::broadcast(std::span<const Gradient> tensors, int root) {
  exchange_->broadcast(tensors, root);
}

void GradientExchange::begin_step(std::uint64_t samples) { exchange_->begin_step(samples); }

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

ExchangeStats GradientExchange::stats() const { return exchange_->stats(); }

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
