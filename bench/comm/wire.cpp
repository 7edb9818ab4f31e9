#include "bench/comm/wire.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "leat/comm/gradient_exchange.h"
#include "leat/comm/parameter_server.h"

namespace bench {
namespace {

using leat::Duration;
namespace comm = leat::comm;

constexpr std::size_t kTensors = 20;
constexpr std::size_t kTensorBytes = 3'200'000;
constexpr double kNominal = 125e6;  // bytes per second: 1 Gb/s
// Four pieces a tensor. Four in flight, as by default: a rank that gets a core late holds up its
// own part of a piece, and the wire has others meanwhile.
constexpr std::size_t kPieceBytes = kTensorBytes / 4;
constexpr std::size_t kPiecesInFlight = 4;
// What is measured at once. A shaped link lets a burst through after a pause: a batch is larger.
constexpr std::size_t kBatchBytes = std::size_t{8} << 20;
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Duration seconds(double value) { return Duration(std::llround(value * 1e9)); }

// The time of act(bytes) for each size, as a sample of `share` of the bytes: the median of batches,
// behind one that does not count.
template <class Act>
std::vector<WireSample> measure(std::span<const std::size_t> sizes, int repetitions, double share,
                                const Act& act) {
  std::vector<WireSample> samples;
  for (const std::size_t size : sizes) {
    const std::size_t batch = std::max<std::size_t>(1, kBatchBytes / std::max(size, kLeastBytes));
    std::vector<double> times;
    for (int i = -1; i < repetitions; ++i) {
      const leat::TimePoint start = leat::now();
      for (std::size_t k = 0; k < batch; ++k) act(size);
      const double time = static_cast<double>((leat::now() - start).count());
      if (i >= 0) times.push_back(time / static_cast<double>(batch));
    }
    samples.push_back({.bytes = share * static_cast<double>(size), .nanoseconds = median(times)});
  }
  return samples;
}

// A rank's tensors, of float32.
std::vector<std::vector<float>> tensors(const std::vector<std::size_t>& bytes, float value) {
  std::vector<std::vector<float>> all;
  all.reserve(bytes.size());
  for (const std::size_t size : bytes) all.emplace_back(size / sizeof(float), value);
  return all;
}

leat::gpu::DeviceSpan span_of(std::vector<float>& one) {
  return {reinterpret_cast<std::byte*>(one.data()), one.size() * sizeof(float)};
}

void check(const std::vector<std::vector<float>>& all, float wanted) {
  for (const std::vector<float>& one : all) {
    for (const float value : one) {
      if (std::abs(value - wanted) > 1e-3F) throw std::runtime_error("a step's sum is wrong");
    }
  }
}

// Steps of the ranks in `workers`, each behind a barrier.
template <class Step>
std::vector<Duration> timed(const comm::Communicator& workers, int steps, const Step& step) {
  std::vector<Duration> times;
  for (int i = -1; i < steps; ++i) {
    workers.barrier().await();
    const leat::TimePoint start = leat::now();
    step();
    std::vector<double> longest = {static_cast<double>((leat::now() - start).count())};
    workers.all_reduce(longest, comm::Reduction::kMax).await();
    if (i >= 0) times.emplace_back(std::llround(longest.front()));
  }
  return times;
}

std::vector<Duration> exchange_steps(const comm::Communicator& ranks, const StepInstance& instance,
                                     int steps) {
  const RankLayers& layers = instance.ranks[static_cast<std::size_t>(ranks.rank())];
  std::vector<std::vector<float>> memory =
      tensors(instance.bytes, static_cast<float>(ranks.rank()));
  std::vector<comm::Gradient> gradients;
  gradients.reserve(memory.size());
  for (std::vector<float>& one : memory) {
    gradients.push_back({.name = "layer " + std::to_string(gradients.size() + 1),
                         .data = span_of(one),
                         .dtype = comm::DType::kFloat32});
  }
  comm::GradientExchange exchange(ranks, gradients, instance.options);
  std::vector<Duration> times = timed(ranks, steps, [&] {
    exchange.begin_step(1);
    for (std::size_t i = exchange.size(); i-- > 0;) {
      leat::sleep_for(layers.backward[i]);
      exchange.ready(i);
    }
    exchange.end_backward();
    for (std::size_t i = 0; i < exchange.size(); ++i) {
      exchange.await(i);
      leat::sleep_for(layers.forward[i]);
    }
  });
  check(memory, static_cast<float>(ranks.size() - 1) / 2);  // the mean
  return times;
}

std::vector<Duration> server_steps(const comm::Communicator& ranks, const StepInstance& instance,
                                   int steps) {
  const auto workers = static_cast<int>(instance.ranks.size());
  std::vector<std::vector<float>> weights = tensors(instance.bytes, 0);
  std::vector<std::vector<float>> memory = tensors(instance.bytes, 1);
  std::vector<comm::Parameter> parameters;
  parameters.reserve(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parameters.push_back({.name = "layer " + std::to_string(i + 1),
                          .weights = span_of(weights[i]),
                          .gradient = span_of(memory[i])});
  }
  comm::ServerOptions options{.servers = {},
                              .optimizer = comm::Sgd{1},
                              .policy = instance.options.policy,
                              .partition_bytes = instance.options.partition_bytes,
                              .credit_bytes = instance.options.credit_bytes};
  for (int rank = workers; rank < ranks.size(); ++rank) options.servers.push_back(rank);
  const auto beside = ranks.split(ranks.rank() < workers ? 0 : -1);
  comm::ParameterServer server(ranks, parameters, options);
  if (!beside) {
    server.serve();
    return {};
  }
  const RankLayers& layers = instance.ranks[static_cast<std::size_t>(ranks.rank())];
  std::vector<Duration> times = timed(*beside, steps, [&] {
    std::vector<comm::Completion> sent = train_step(server, layers);
    for (comm::Completion& one : sent) one.await();
  });
  check(weights, -static_cast<float>(steps + 1));
  return times;
}

}  // namespace

WireFit fit_wire(std::span<const WireSample> samples) {
  // Least squares of (alpha + c * v) / t - 1, whose unknowns are alpha and c = 1 / bandwidth.
  double aa = 0;
  double ac = 0;
  double cc = 0;
  double a1 = 0;
  double c1 = 0;
  for (const WireSample& one : samples) {
    if (!(one.nanoseconds > 0)) throw std::invalid_argument("fit_wire: a sample took no time");
    const double a = 1 / one.nanoseconds;
    const double c = one.bytes / one.nanoseconds;
    aa += a * a;
    ac += a * c;
    cc += c * c;
    a1 += a;
    c1 += c;
  }
  const double determinant = aa * cc - ac * ac;
  if (!(determinant > 1e-12 * aa * cc)) {
    throw std::invalid_argument("fit_wire: the samples have not two different sizes");
  }
  const double slope = (aa * c1 - ac * a1) / determinant;
  if (!(slope > 0)) {
    throw std::invalid_argument("fit_wire: more bytes do not take more time");
  }
  // A negative alpha is noise: then the line goes through 0.
  const double alpha = (cc * a1 - ac * c1) / determinant;
  WireFit fit{.alpha = std::max(0.0, alpha), .bandwidth = 1e9 / (alpha < 0 ? c1 / cc : slope)};
  for (const WireSample& one : samples) {
    const double time = fit.alpha + 1e9 * one.bytes / fit.bandwidth;
    fit.worst = std::max(fit.worst, std::abs(time / one.nanoseconds - 1));
  }
  return fit;
}

std::vector<WireSample> measure_all_reduces(const comm::Communicator& ranks,
                                            std::span<const std::size_t> sizes, int repetitions) {
  std::vector<float> data(*std::max_element(sizes.begin(), sizes.end()) / sizeof(float), 0.0F);
  const double n = ranks.size();
  return measure(sizes, repetitions, 2 * (n - 1) / n, [&](std::size_t size) {
    ranks.all_reduce(std::span(data).first(size / sizeof(float))).await();
  });
}

std::vector<WireSample> measure_sends(const comm::Communicator& ranks,
                                      std::span<const std::size_t> sizes, int repetitions) {
  std::vector<float> from(*std::max_element(sizes.begin(), sizes.end()) / sizeof(float), 0.0F);
  std::vector<float> to = from;
  const int n = ranks.size();
  return measure(sizes, repetitions, 1, [&](std::size_t size) {
    const std::size_t count = size / sizeof(float);
    comm::Completion received = ranks.recv(std::span(to).first(count), (ranks.rank() + n - 1) % n);
    ranks.send(std::span(from).first(count), (ranks.rank() + 1) % n).await();
    received.await();
  });
}

Duration measure_notice(const comm::Communicator& ranks) {
  constexpr std::size_t kNoBytes = 0;
  const std::vector<WireSample> samples = measure(
      std::span(&kNoBytes, 1), 7, 0, [&](std::size_t /*size*/) { ranks.barrier().await(); });
  return Duration(std::llround(samples.front().nanoseconds));
}

std::vector<WireCase> wire_cases(int ranks) {
  const double n = ranks;
  const double computing = 2 * (n - 1) / n * kTensors * kTensorBytes / kNominal;
  const RankLayers layers{
      .backward = std::vector<Duration>(kTensors, seconds(computing * 2 / 3 / kTensors)),
      .forward = std::vector<Duration>(kTensors, seconds(computing / 3 / kTensors))};
  StepInstance plain;
  plain.ranks.assign(static_cast<std::size_t>(ranks), layers);
  plain.bytes.assign(kTensors, kTensorBytes);
  plain.options.policy = comm::Policy::kFifo;
  plain.options.partition_bytes = kPieceBytes;
  plain.options.credit_bytes = kPiecesInFlight * kPieceBytes;
  // No overlap: the whole backward comes before the first gradient is ready, and the forward behind
  // the last result.
  StepInstance no_overlap = plain;
  no_overlap.options.synchronous = true;
  for (RankLayers& one : no_overlap.ranks) {
    std::vector<Duration>& times = one.backward;
    times.back() = std::accumulate(times.begin(), times.end(), Duration::zero());
    std::fill(times.begin(), times.end() - 1, Duration::zero());
  }
  StepInstance bucketed = plain;
  bucketed.options.policy = comm::Policy::kBucketed;
  bucketed.options.credit_bytes = kTensors * kTensorBytes;  // as DDP: a bucket waits for none
  StepInstance priority = plain;
  priority.options.policy = comm::Policy::kPriority;
  // The model sends piece by piece on a line. A wire shares its rate among those in flight, which
  // then all end late; so servers, whose pieces go two ways, have smaller ones.
  StepInstance server = priority;
  server.options.partition_bytes /= 2;
  server.options.credit_bytes /= 2;
  server.servers = ranks / 2;
  server.ranks.resize(static_cast<std::size_t>(ranks - server.servers));
  return {{"no overlap", no_overlap},
          {"fifo", plain},
          {"bucketed", bucketed},
          {"priority", priority},
          {"server", server}};
}

Duration expected_step(const WireCase& one, const WireFit& wire, Duration delta) {
  StepInstance instance = one.instance;
  instance.alpha = Duration(std::llround(wire.alpha));
  instance.bandwidth = wire.bandwidth;
  instance.delta = delta;
  const std::vector<Duration> times = run_step(instance);
  return *std::max_element(times.begin(), times.end());
}

std::vector<Duration> run_steps(const comm::Communicator& ranks, const StepInstance& instance,
                                int steps) {
  return instance.servers > 0 ? server_steps(ranks, instance, steps)
                              : exchange_steps(ranks, instance, steps);
}

}  // namespace bench
