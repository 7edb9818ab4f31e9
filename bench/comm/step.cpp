#include "bench/comm/step.h"

#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/comm/communicator.h"
#include "leat/comm/parameter_server.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

namespace bench {
namespace {

using namespace std::chrono_literals;
using leat::Duration;
namespace comm = leat::comm;
namespace gpu = leat::gpu;

// A step of any length is no error here.
constexpr Duration kDeadline = 24h * 365 * 100;

// A step as it is exchanged. Gradients are of float32. If a size is no multiple of that type's,
// elements have one byte each: then a byte of the instance stands for one float32, on a link that
// is as many times faster.
class Exchanged {
 public:
  explicit Exchanged(const StepInstance& instance) : options_(instance.options) {
    for (const std::size_t size : instance.bytes) {
      if (size % kElement != 0) scale_ = kElement;
    }
    options_.partition_bytes *= scale_;
    options_.credit_bytes *= scale_;
    for (std::size_t& limit : options_.bucket_bytes) limit *= scale_;
    bandwidth_ = instance.bandwidth * static_cast<double>(scale_);
    // Their bytes are nowhere: moves_data is false.
    std::uintptr_t address = std::uintptr_t{1} << 40;
    for (const std::size_t size : instance.bytes) {
      gradients_.push_back({.name = "layer " + std::to_string(gradients_.size() + 1),
                            .data = gpu::DeviceSpan(std::bit_cast<void*>(address), size * scale_),
                            .dtype = gpu::DType::kFloat32});
      address += size * scale_;
    }
  }
  [[nodiscard]] const comm::ExchangeOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::vector<comm::Gradient>& gradients() const noexcept { return gradients_; }
  [[nodiscard]] double bandwidth() const noexcept { return bandwidth_; }

 private:
  static constexpr std::size_t kElement = 4;

  std::size_t scale_ = 1;
  comm::ExchangeOptions options_;
  std::vector<comm::Gradient> gradients_;
  double bandwidth_ = 0;
};

// The step of one rank, which begins when all ranks are there.
Duration step_of(const comm::Communicator& communicator, const Exchanged& exchanged,
                 Duration settling, const RankLayers& layers, const gpu::StreamRef& stream,
                 leat::WaitGroup& arriving, leat::WaitGroup& leaving) {
  comm::GradientExchange exchange(communicator, exchanged.gradients(), exchanged.options());
  const std::size_t size = exchange.size();
  arriving.done();
  arriving.wait();
  leat::sleep_for(settling);
  const leat::TimePoint start = leat::now();
  exchange.begin_step(1);
  for (std::size_t i = size; i-- > 0;) {
    leat::sleep_for(layers.backward[i]);
    exchange.ready(i, stream);
  }
  exchange.end_backward();
  for (std::size_t i = 0; i < size; ++i) {
    exchange.await(i, stream);
    leat::sleep_for(layers.forward[i]);
  }
  const Duration time = leat::now() - start;
  leaving.done();
  leaving.wait();  // one that leaves early ends the others' step
  return time;
}

// The step of a worker, as step_of().
Duration server_step_of(comm::ParameterServer& server, Duration settling, bool synchronous,
                        const RankLayers& layers, leat::WaitGroup& arriving,
                        leat::WaitGroup& leaving) {
  arriving.done();
  arriving.wait();
  leat::sleep_for(settling);
  const leat::TimePoint start = leat::now();
  std::vector<comm::Completion> sent = train_step(server, layers, synchronous);
  const Duration time = leat::now() - start;
  for (comm::Completion& one : sent) one.await();
  leaving.done();
  leaving.wait();
  return time;
}

comm::ServerOptions server_options(const Exchanged& exchanged, int workers, int servers) {
  comm::ServerOptions options{.servers = {},
                              .policy = exchanged.options().policy,
                              .partition_bytes = exchanged.options().partition_bytes,
                              .credit_bytes = exchanged.options().credit_bytes};
  for (int rank = workers; rank < workers + servers; ++rank) options.servers.push_back(rank);
  return options;
}

std::vector<comm::Parameter> parameters(const Exchanged& exchanged) {
  std::vector<comm::Parameter> all;
  for (const comm::Gradient& one : exchanged.gradients()) {
    all.push_back({.name = one.name, .weights = one.data, .gradient = one.data});
  }
  return all;
}

}  // namespace

std::vector<comm::Completion> train_step(comm::ParameterServer& server, const RankLayers& layers,
                                         bool synchronous) {
  server.begin_step(1);
  std::vector<comm::Completion> sent;
  std::vector<std::optional<comm::Completion>> fetched(server.size());
  for (std::size_t i = server.size(); i-- > 0;) {
    leat::sleep_for(layers.backward[i]);
    sent.push_back(server.send_vars(i));
    fetched[i] = server.fetch_vars(i);
  }
  sent.push_back(server.send_barrier());
  if (synchronous) server.fetch_barrier().await();
  for (std::size_t i = 0; i < server.size(); ++i) {
    fetched[i]->await();
    leat::sleep_for(layers.forward[i]);
  }
  return sent;
}

std::vector<Duration> run_step(const StepInstance& instance) {
  const std::size_t size = instance.ranks.size();
  const auto servers = static_cast<std::size_t>(instance.servers);
  std::vector<Duration> times(size);
  leat::VirtualClock clock;
  const Exchanged exchanged(instance);
  const Duration settling = 2 * instance.delta + 1s;  // what the constructors send has come then
  const auto body = [&] {
    const std::vector<comm::Communicator> ranks = comm::open(
        "local:" + std::to_string(size + servers), {.deadline = kDeadline,
                                                    .link = {.bandwidth = exchanged.bandwidth(),
                                                             .alpha = instance.alpha,
                                                             .delta = instance.delta,
                                                             .enabled = true,
                                                             .moves_data = false}});
    const gpu::Device device = gpu::open_host({});
    std::vector<gpu::Stream> streams;
    for (std::size_t r = 0; r < size; ++r) streams.emplace_back(device);
    leat::WaitGroup arriving;
    leat::WaitGroup leaving;
    arriving.add(static_cast<std::int64_t>(size));
    leaving.add(static_cast<std::int64_t>(size));
    leat::TaskGroup group;
    for (std::size_t r = 0; r < size + servers && servers > 0; ++r) {
      group.go([&, r] {
        comm::ParameterServer server(
            ranks[r], parameters(exchanged),
            server_options(exchanged, static_cast<int>(size), instance.servers));
        if (r >= size) return server.serve();
        times[r] = server_step_of(server, settling, instance.options.synchronous, instance.ranks[r],
                                  arriving, leaving);
      });
    }
    for (std::size_t r = 0; r < size && servers == 0; ++r) {
      group.go([&, r] {
        times[r] = step_of(ranks[r], exchanged, settling, instance.ranks[r], streams[r], arriving,
                           leaving);
      });
    }
    group.wait();
  };
  leat::run(body, {.workers = 1, .clock = &clock});
  return times;
}

}  // namespace bench
