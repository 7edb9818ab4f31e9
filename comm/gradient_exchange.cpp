#include "leat/comm/gradient_exchange.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "leat/comm/exchange/exchange.h"

namespace leat::comm {

struct GradientExchange::Layers {
  Layers(std::vector<Gradient> given, const std::vector<GradientLayer>& all) : layers(all) {
    gradients.push_back(std::move(given));
    for (const GradientLayer& layer : layers) {
      std::vector<Gradient> next = gradients.back();
      for (std::size_t i = 0; i < next.size() && layer.declare; ++i) {
        next[i] = layer.declare(i, gradients.back()[i]);
      }
      gradients.push_back(std::move(next));
    }
  }

  void before(std::size_t index, const gpu::StreamRef& stream) const {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].before) continue;
      layers[i].before(index, gradients[i][index], gradients[i + 1][index], stream);
    }
  }
  void after(std::size_t index, const gpu::StreamRef& stream) const {
    for (std::size_t i = layers.size(); i-- > 0;) {
      if (!layers[i].after) continue;
      layers[i].after(index, gradients[i][index], gradients[i + 1][index], stream);
    }
  }
  void require_none(const char* call) const {
    if (layers.empty()) return;
    throw std::logic_error("leat: GradientExchange::" + std::string(call) +
                           ": give a stream, on which the layers work");
  }

  std::vector<GradientLayer> layers;
  // As each layer sees them; the last ones are exchanged.
  std::vector<std::vector<Gradient>> gradients;
};

GradientExchange::GradientExchange(const Communicator& communicator,
                                   std::vector<Gradient> gradients, ExchangeOptions options)
    : layers_(std::make_unique<const Layers>(std::move(gradients), options.layers)),
      exchange_(std::make_unique<Exchange>(communicator, layers_->gradients.back(),
                                           std::move(options))) {}

GradientExchange::~GradientExchange() = default;

void GradientExchange::broadcast(std::span<const Gradient> tensors, int root) {
  exchange_->broadcast(tensors, root);
}

void GradientExchange::begin_step(std::uint64_t samples) { exchange_->begin_step(samples); }

void GradientExchange::ready(std::size_t index, const gpu::StreamRef& stream) {
  exchange_->check_ready(index, &stream);
  layers_->before(index, stream);
  exchange_->ready(index, &stream);
}

void GradientExchange::ready(std::size_t index) {
  layers_->require_none("ready");
  exchange_->ready(index, nullptr);
}

void GradientExchange::end_backward() { exchange_->end_backward(); }

bool GradientExchange::await(std::size_t index, const gpu::StreamRef& stream) {
  const bool has_come = exchange_->await(index, &stream);
  if (has_come) layers_->after(index, stream);
  return has_come;
}

bool GradientExchange::await(std::size_t index) {
  layers_->require_none("await");
  return exchange_->await(index, nullptr);
}

void GradientExchange::await_all(const gpu::StreamRef& stream) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (exchange_->has_result_to_await(i)) await(i, stream);
  }
}

void GradientExchange::await_all() {
  layers_->require_none("await_all");
  for (std::size_t i = 0; i < size(); ++i) {
    if (exchange_->has_result_to_await(i)) exchange_->await(i, nullptr);
  }
}

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
