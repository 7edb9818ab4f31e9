// The order of pieces on one line, from a worker to the servers or from a server to a worker.
//
// Always true: a piece is queued from queue() to next(), and in flight from next() to finished().
// The first by the policy starts if it fits into the credit, or if nothing is in flight; nothing
// overtakes it.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "leat/comm/server/server_plan.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// A line's queue. Allocates nothing but in the constructor.
class Line {
 public:
  /// Borrows the plan.
  Line(const ServerPlan& plan, Policy policy, std::uint64_t credit)
      : plan_(plan), policy_(policy), credit_(credit) {
    queue_.reserve(plan.pieces.size());
  }

  /// The piece can travel from the instant `since` on. It must not be queued already.
  void queue(std::uint32_t piece, TimePoint since) {
    const std::uint32_t tensor = plan_.pieces[piece].tensor;
    // At one instant, the parameter that was declared last comes first.
    queue_.push_back(policy_ == Policy::kFifo ? Queued{since, ~tensor, piece}
                                              : Queued{TimePoint(), tensor, piece});
    std::ranges::push_heap(queue_, later);
  }
  /// The next piece, if it may start now; it is in flight then.
  [[nodiscard]] std::optional<std::uint32_t> next() {
    if (queue_.empty()) return std::nullopt;
    const std::uint32_t piece = queue_.front().piece;
    const std::uint64_t bytes = plan_.pieces[piece].bytes;
    if (in_flight_ > 0 && in_flight_ + bytes > credit_) return std::nullopt;
    std::ranges::pop_heap(queue_, later);
    queue_.pop_back();
    in_flight_ += bytes;
    return piece;
  }
  void finished(std::uint32_t piece) noexcept { in_flight_ -= plan_.pieces[piece].bytes; }
  [[nodiscard]] bool has_queued() const noexcept { return !queue_.empty(); }

 private:
  struct Queued {
    TimePoint since;
    std::uint32_t order = 0;
    std::uint32_t piece = 0;
  };
  static bool later(const Queued& a, const Queued& b) noexcept {
    return std::tie(a.since, a.order, a.piece) > std::tie(b.since, b.order, b.piece);
  }

  const ServerPlan& plan_;
  const Policy policy_;
  const std::uint64_t credit_;
  std::vector<Queued> queue_;  // a heap; the next one first
  std::uint64_t in_flight_ = 0;
};

}  // namespace leat::comm
