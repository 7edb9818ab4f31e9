// The leader's decisions: what is ready on all ranks, and which piece is next. It knows nothing of
// time but instants, and nothing of fibers: rank 0's exchange fiber calls it.
//
// Always true:
//  - A unit is queued from the report that completes it, until its last piece is ordered.
//  - Of the queued units the first by the policy gives the next piece. It starts if it fits into
//  the
//    credit, or if nothing is in flight; nothing overtakes it.
//  - A rank reports a tensor once in each step, and not again before the unit was ordered: its last
//    result must have come.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "leat/comm/exchange/plan.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// One piece to be exchanged now.
struct Order {
  std::uint32_t unit = 0;
  std::uint32_t piece = 0;
  friend bool operator==(const Order&, const Order&) = default;
};

/// Rank 0's queue of an exchange of `ranks` ranks.
class Leader {
 public:
  /// Borrows the plan.
  Leader(const Plan& plan, const ExchangeOptions& options, int ranks);

  /// Rank `rank` reports that its part of `tensor` can be exchanged; `given`: it contributes. `now`
  /// is the instant of the report. Tensors of a unit to which no rank contributes, or that has no
  /// bytes, are appended to `empty`: nothing is sent of them.
  void report(int rank, std::uint32_t tensor, bool given, TimePoint now,
              std::vector<std::uint32_t>& empty);
  /// Rank 0 awaits `tensor`: for Urgency::kAwaited. The first of each counts.
  void awaited(std::uint32_t tensor);
  /// The next piece, if it may start now; it is in flight then. Tensors of a bucket to which no
  /// rank contributes, though one does to the bucket, are appended to `absent`.
  [[nodiscard]] std::optional<Order> next(std::vector<std::uint32_t>& absent);
  /// A piece has ended on rank 0.
  void finished(const Order& order) noexcept;

  /// Bytes in flight.
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_; }
  /// A tensor that some ranks have reported and others not.
  struct Incomplete {
    std::uint32_t tensor = 0;
    TimePoint since;  ///< the first report
    std::vector<int> missing;
  };
  /// When the oldest incomplete tensor was first reported; nothing if there is none.
  [[nodiscard]] std::optional<TimePoint> oldest_incomplete() const noexcept;
  /// That tensor. There is one.
  [[nodiscard]] Incomplete incomplete() const;
  /// The tensors that `rank` has not reported while others have; for a rank that has left. Only the
  /// oldest one. Nothing if nobody waits for the rank.
  [[nodiscard]] std::optional<std::uint32_t> waits_for(int rank) const noexcept;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct TensorState {
    int reports = 0;
    int contributions = 0;
    std::vector<bool> reported;  // by rank
    TimePoint since;
    std::uint32_t older = kNone, newer = kNone;  // in the list of incomplete tensors
  };
  struct UnitState {
    std::uint32_t complete = 0;  // its tensors that are
    std::uint32_t next_piece = 0;
    std::uint64_t empty_rounds = 0;  // a bucket's: completed empty, and not yet skipped
    bool is_queued = false;
  };
  // The first in the order of the policy is next: (instant, order among equals).
  struct Queued {
    TimePoint since;
    std::uint32_t order = 0;
    std::uint32_t unit = 0;
  };

  void complete(std::uint32_t unit, TimePoint now, std::vector<std::uint32_t>& empty);
  [[nodiscard]] std::optional<std::uint32_t> first() noexcept;
  void link(std::uint32_t tensor) noexcept;
  void unlink(std::uint32_t tensor) noexcept;

  const Plan& plan_;
  const Policy policy_;
  const Urgency urgency_;
  const std::uint64_t credit_;
  const int ranks_;
  std::vector<TensorState> tensors_;
  std::vector<UnitState> units_;
  std::uint32_t oldest_ = kNone, newest_ = kNone;
  std::vector<std::uint32_t> urgency_of_;  // by tensor; the smallest comes first
  std::vector<bool> was_awaited_;
  std::uint32_t awaited_ = 0;
  std::vector<Queued> queue_;      // kFifo, kPriority: sorted, the next one last; never grows
  std::uint32_t next_bucket_ = 0;  // kBucketed
  std::uint64_t in_flight_ = 0;
};

}  // namespace leat::comm
