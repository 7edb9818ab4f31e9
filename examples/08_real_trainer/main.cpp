// What a training loop has in earnest: evaluation between epochs, a loss that is read back without
// waiting for it, checkpoints from which a run goes on to the bit, Ctrl-C, and several processes
// that share each step. (The network and its kernels are those of examples/03_mnist.)
//
// The loop enqueues steps and evaluations, each with an event behind it, and records what came out
// of those that the device has done. It waits for the device only where kWindow of them are under
// way, and to write a checkpoint.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/03_mnist/network.h"
#include "examples/03_mnist/output.h"
#include "examples/08_real_trainer/checkpoint.h"
#include "examples/08_real_trainer/options.h"
#include "examples/08_real_trainer/peers.h"
#include "leat/csp/blocking.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/state.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"

namespace {

using leat::feeder::Lease;
using mnist::Metrics;
using trainer::Options;
using trainer::Peers;

constexpr std::uint64_t kWindow = 8;
constexpr std::uint64_t kReportEvery = 200;  // steps

std::atomic<bool> g_interrupted = false;  // by a handler, on whichever thread
static_assert(std::atomic<bool>::is_always_lock_free);

// What a step or an evaluation leaves to the host, once the device has done it.
struct Result {
  explicit Result(const leat::gpu::Device& device)
      : done(device), memory(device, sizeof(Metrics)) {}
  [[nodiscard]] Metrics& metrics() const { return *reinterpret_cast<Metrics*>(memory.data()); }

  leat::gpu::Event done;
  leat::gpu::PinnedBuffer memory;  // Metrics
  double stop = 0;                 // how many processes were interrupted
  bool is_test = false;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // the latest one
};

class Trainer {
 public:
  Trainer(const Options& options, const Peers& peers, const leat::feeder::Mnist& training,
          const leat::feeder::Mnist& testing, const leat::gpu::Device& device,
          const trainer::Checkpoint* from)
      : options_(options),
        peers_(peers),
        stream_(device),
        network_(stream_, options.batch_size, options.seed),
        staging_(device, 2 * network_.parameters().size()),
        // [shards]
        feed_(training, device,
              {.batch_size = options.batch_size,  // of all processes together
               .seed = options.seed,
               .rank = peers.rank(),
               .world_size = peers.count(),
               .resume = from == nullptr ? std::nullopt : std::optional(from->feed)}),
        // [/shards]
        test_feed_(testing, device,
                   {.batch_size = options.batch_size,
                    .order = leat::feeder::Order::kSequential,
                    .rank = peers.rank(),
                    .world_size = peers.count()}) {
    for (std::uint64_t i = 0; i < kWindow; ++i) results_.emplace_back(device);
    if (from != nullptr) go_on(*from);
    if (!is_first() || options.log.empty()) return;
    log_.open(options.log, from == nullptr ? std::ios::trunc : std::ios::app);
    if (!log_) throw std::runtime_error("cannot write to " + options.log);
    log_.precision(9);
  }

  // Returns whether it was interrupted.
  bool run() {
    // [loop]
    for (std::uint64_t epoch = first_epoch_; epoch < options_.epochs && !is_over(); ++epoch) {
      for (Lease& batch : feed_.epoch(epoch, stream_)) {
        train(batch);
        batch.release();  // from here on it is part of feed_.state()
        if (is_over()) break;
        if (step_ % options_.checkpoint_every == 0) save();
      }
      if (!is_over()) evaluate(epoch);  // enqueued behind the steps, as they are
    }
    // [/loop]
    record_all_but(0);
    save();
    if (!log_.flush()) throw std::runtime_error("cannot write to " + options_.log);
    return is_over() && step_ < options_.stop_after;
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return step_; }

 private:
  [[nodiscard]] bool is_first() const noexcept { return peers_.rank() == 0; }
  [[nodiscard]] bool is_over() const noexcept { return step_ >= last_step_; }

  void train(Lease& batch) {
    ++step_;
    Result& result = next_result(false, batch.epoch());
    if (batch.size() > 0) {  // else this process has no part of the step, but takes part in the sum
      network_.compute_gradient(batch["image"].data<std::uint8_t>(),
                                batch["label"].data<std::uint8_t>(), batch.size());
    }
    network_.take_metrics(result.memory.span());
    const auto step_size = static_cast<float>(batch.step_size());
    add_up(result, static_cast<float>(batch.size()) / step_size);
    network_.update({.learning_rate = 0.05F * std::pow(0.3F, static_cast<float>(batch.epoch()))});
    result.done.record(stream_);
  }

  // [evaluation]
  void evaluate(std::uint64_t epoch) {
    for (Lease& batch : test_feed_.epoch(epoch, stream_)) {
      if (batch.size() == 0) continue;
      network_.evaluate(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                        batch.size());
    }
    Result& result = next_result(true, epoch);
    network_.take_metrics(result.memory.span());
    add_up(result, std::nullopt);
    result.done.record(stream_);
  }
  // [/evaluation]

  Result& next_result(bool is_test, std::uint64_t epoch) {
    record_all_but(kWindow - 1);
    Result& result = results_[enqueued_++ % kWindow];
    result.stop = g_interrupted ? 1 : 0;
    result.is_test = is_test;
    result.epoch = epoch;
    result.step = step_;
    return result;
  }

  // Enqueues the sum over all processes of the result and, if `weight` is there, of the gradients,
  // by their weights: a host function, as it were the all-reduce of a library for it.
  void add_up(Result& result, std::optional<float> weight) {
    if (peers_.count() == 1) return;
    const std::size_t bytes = weight.has_value() ? network_.gradient().size() : 0;
    const leat::gpu::PinnedSpan pinned = staging_.subspan(0, bytes);
    const leat::gpu::DeviceSpan gradient = network_.gradient().subspan(0, bytes);
    leat::gpu::copy_async(stream_, pinned, gradient);
    stream_.launch_host([&peers = peers_, &result, pinned, weight = weight.value_or(0)] {
      const std::span values(reinterpret_cast<float*>(pinned.data()),
                             pinned.size() / sizeof(float));
      // Without samples the gradient is that of an earlier step, or whatever the memory was.
      for (float& value : values) value = weight == 0 ? 0 : weight * value;
      Metrics& metrics = result.metrics();
      std::array<double, 4> sums{metrics.loss, static_cast<double>(metrics.correct),
                                 static_cast<double>(metrics.samples), result.stop};
      leat::blocking([&] {  // waits for the others: not on a thread that runs fibers
        peers.sum(values);
        peers.sum(sums);
      });
      metrics = {sums[0], static_cast<std::uint64_t>(sums[1]), static_cast<std::uint64_t>(sums[2])};
      result.stop = sums[3];
    });
    leat::gpu::copy_async(stream_, gradient, pinned);
  }

  // [readback]
  // Records what the device has done; waits while more than `most` results are under way.
  void record_all_but(std::uint64_t most) {
    for (bool goes_on = true; goes_on && recorded_ < enqueued_;) {
      const Result& oldest = results_[recorded_ % kWindow];
      auto is_done = leat::gpu::on_done(oldest.done, [&] {
        record(oldest);
        ++recorded_;
      });
      if (enqueued_ - recorded_ > most) {
        leat::select(std::move(is_done));
      } else {
        leat::select(std::move(is_done), leat::otherwise([&] { goes_on = false; }));
      }
    }
  }
  // [/readback]

  void record(const Result& result) {
    // Every process has recorded this step before it begins the one kWindow later: all stop there.
    if (result.stop > 0) last_step_ = std::min(last_step_, result.step + kWindow);
    const Metrics& metrics = result.metrics();
    const auto samples = static_cast<double>(metrics.samples);
    if (!result.is_test) {
      if (progress_.epoch != result.epoch) progress_ = {.epoch = result.epoch};
      progress_.steps = result.step;
      progress_.loss += metrics.loss;
      progress_.samples += samples;
    }
    if (!is_first()) return;
    const auto epoch = static_cast<unsigned long long>(result.epoch + 1);
    const double mean_loss = progress_.loss / progress_.samples;  // of the epoch so far
    if (result.is_test) {
      std::printf("epoch %llu  loss %.2f  test accuracy %.0f %%\n", epoch, mean_loss,
                  100.0 * static_cast<double>(metrics.correct) / samples);
    } else {
      if (log_.is_open()) log_ << result.step << ',' << metrics.loss / samples << '\n';
      if (result.step % kReportEvery != 0) return;
      std::printf("epoch %llu  loss %.2f  after %llu steps\n", epoch, mean_loss,
                  static_cast<unsigned long long>(result.step));
    }
    mnist::flush_output();
  }

  // [save]
  void save() {
    if (options_.checkpoint.empty()) return;
    record_all_but(0);
    if (!is_first()) return;  // the ranks are in step: what one has released, all have
    const std::size_t half = staging_.size() / 2;
    leat::gpu::copy_async(stream_, staging_.subspan(0, half), network_.parameters());
    leat::gpu::copy_async(stream_, staging_.subspan(half, half), network_.velocity());
    const leat::gpu::Event copied(stream_.device());
    copied.record(stream_);
    copied.await();
    if (!log_.flush()) throw std::runtime_error("cannot write to " + options_.log);
    trainer::Checkpoint checkpoint{.progress = progress_, .feed = feed_.state(), .weights = {}};
    const auto* const weights = reinterpret_cast<const float*>(staging_.data());
    checkpoint.weights.assign(weights, weights + staging_.size() / sizeof(float));
    leat::blocking([&] { trainer::save(checkpoint, options_.checkpoint); });
  }
  // [/save]

  void go_on(const trainer::Checkpoint& from) {
    const std::size_t half = staging_.size() / 2;
    std::memcpy(staging_.data(), from.weights.data(), staging_.size());
    leat::gpu::copy_async(stream_, network_.parameters(), staging_.subspan(0, half));
    leat::gpu::copy_async(stream_, network_.velocity(), staging_.subspan(half, half));
    progress_ = from.progress;
    step_ = progress_.steps;
    first_epoch_ = leat::feeder::State::parse(from.feed).next_epoch();
  }

  const Options& options_;
  const Peers& peers_;
  const leat::gpu::Stream stream_;
  mnist::Network network_;
  leat::gpu::PinnedBuffer staging_;  // weights and velocities, or a gradient
  std::vector<Result> results_;      // a ring
  leat::feeder::Prefetcher feed_;
  leat::feeder::Prefetcher test_feed_;
  std::ofstream log_;
  std::uint64_t enqueued_ = 0;  // results
  std::uint64_t recorded_ = 0;
  trainer::Progress progress_;
  std::uint64_t first_epoch_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t last_step_ = options_.stop_after;
};

// "host" is another one for each process; "host:0" is the same for all.
leat::gpu::Device open_device(const std::string& name, std::size_t rank) {
  const bool has_number = name == "auto" || name.find(':') != std::string::npos;
  return leat::gpu::open(has_number ? name : name + ":" + std::to_string(rank));
}

int run(const Options& options, const Peers& peers) {
  using leat::feeder::Mnist;
  std::optional<trainer::Checkpoint> from;
  if (!options.resume.empty()) from = trainer::load(options.resume, 2 * mnist::kParameters);
  const Mnist training(options.data, Mnist::kTrain);
  const Mnist testing(options.data, Mnist::kTest);
  if (training.rows() != mnist::kSide || training.columns() != mnist::kSide ||
      testing.rows() != mnist::kSide || testing.columns() != mnist::kSide) {
    throw std::runtime_error("the images in " + options.data + " are not of 28 x 28 pixels");
  }
  const leat::gpu::Device device = open_device(options.device, peers.rank());
  Trainer trainer(options, peers, training, testing, device, from ? &*from : nullptr);
  if (!trainer.run()) return 0;
  if (peers.rank() == 0) {
    std::printf("interrupted after %llu steps\n", static_cast<unsigned long long>(trainer.steps()));
    mnist::flush_output();
  }
  return 128 + SIGINT;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    mnist::require_output();
    options = trainer::parse(argc, argv);
    if (options.help) {
      std::fputs(trainer::usage(), stdout);
      mnist::flush_output();
      return 0;
    }
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "real_trainer: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "real_trainer: %s\n", e.what());
    return 1;
  }
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) { g_interrupted = true; };
  interrupt.sa_flags =
      static_cast<int>(SA_RESTART | SA_RESETHAND);  // the second one ends it at once
  sigaction(SIGINT, &interrupt, nullptr);

  try {
    Peers peers(options.processes);  // from here on, each of them runs this
    int status = 1;
    try {
      status = leat::run([&] { return run(options, peers); });
    } catch (const std::exception& e) {
      std::fprintf(stderr, "real_trainer: rank %zu: %s\n", peers.rank(), e.what());
    }
    return peers.leave(status);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "real_trainer: %s\n", e.what());
    return 1;
  }
}
