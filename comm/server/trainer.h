// What the trainer of a worker calls: checks the order of the calls, and tells the worker's side.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/comm/completion.h"
#include "leat/comm/exchange/calls.h"
#include "leat/csp/bell.h"
#include "leat/gpu/backend/pool.h"

namespace leat::comm {

class Endpoint;

/// The first group is the trainer's; the second is thread-safe, for the worker's side.
class Trainer {
 public:
  explicit Trainer(Endpoint& endpoint);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer() = default;

  // See ParameterServer. Without a stream: null.
  void begin_step(std::uint64_t samples);
  [[nodiscard]] Completion send_vars(std::span<const std::size_t> indices,
                                     const gpu::StreamRef* stream);
  [[nodiscard]] Completion send_barrier();
  [[nodiscard]] Completion fetch_vars(std::span<const std::size_t> indices,
                                      const gpu::StreamRef* stream);
  [[nodiscard]] Completion fetch_barrier();
  /// The first worker's weights go to the servers, and from there to all workers.
  void load_weights();

  /// Whether begin_step() waits for done().
  [[nodiscard]] bool waits() const noexcept { return waits_; }
  /// All servers have done this step.
  void done(std::uint64_t step) {
    done_.store(step, std::memory_order_release);
    wake();
  }
  /// The world has failed.
  void wake() { done_bell_.ring(); }
  /// The gradient, or the weights, of a parameter are the trainer's again.
  void sent(std::size_t index) noexcept { sending_[index].store(false, std::memory_order_release); }
  void fetched(std::size_t index) noexcept {
    fetching_[index].store(false, std::memory_order_release);
  }

 private:
  void require_free(const char* call, std::span<const std::size_t> indices,
                    const std::atomic<bool>* busy) const;
  [[nodiscard]] Completion open(TrainerCall::Kind kind, std::span<const std::size_t> indices,
                                const gpu::StreamRef* stream);

  Endpoint& endpoint_;
  const std::shared_ptr<gpu::Pool<CompletionState>> completions_ =
      std::make_shared<gpu::Pool<CompletionState>>();
  Bell done_bell_{"comm round", Bell::RungBy::kOutsiders};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> waits_{false};
  std::unique_ptr<std::atomic<bool>[]> sending_, fetching_;  // by parameter

  std::uint64_t step_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t samples_ = 0;
  bool in_step_ = false;
  std::vector<std::uint64_t> sent_;     // the last step, by parameter
  std::vector<std::uint64_t> fetched_;  // the step of the last fetch, by parameter
  StreamCalls events_;
};

}  // namespace leat::comm
