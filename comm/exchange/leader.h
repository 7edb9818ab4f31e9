// The leader's decisions: what is ready on all ranks, and which piece is next. It knows nothing of
// time but instants, and nothing of fibers: rank 0's exchange fiber calls it.
//
// Always true:
//  - A unit is queued from the report that completes it, until its last piece is ordered.
//  - The pieces of queued units start by the policy, as CreditQueue says. Buckets have their turns
//    in the order of the plan; one that is empty is skipped.
//  - A rank reports a tensor once in each step, and not again before the unit was ordered: its last
//    result must have come.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "leat/comm/exchange/credit_queue.h"
#include "leat/comm/exchange/plan.h"
#include "leat/comm/transports/operation.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// Notice::kind between exchanges. All but kReport and kLeft are decisions of the leader.
enum NoticeKind : std::uint32_t {
  kReport,  // to rank 0: `tensor` of `step` can be exchanged; value: 1 given, 0 empty
  kOrder,   // `piece` of unit `tensor` is next
  kAbsent,  // nobody contributes to `tensor` of the bucket that is ordered next
  kEmpty,   // nobody contributes to `tensor`; nothing is sent
  kLeft,    // the sender's exchange is gone
};

/// One piece to be exchanged now.
struct Order {
  std::uint32_t unit = 0;
  std::uint32_t piece = 0;
};

/// Rank 0's queue of an exchange of `ranks` ranks.
class Leader {
 public:
  /// Borrows the plan.
  Leader(const Plan& plan, const ExchangeOptions& options, int ranks);

  /// Takes a kReport that came at `now`. Appends kEmpty to `decisions` for tensors of a unit to
  /// which no rank contributes, or that has no bytes.
  void report(const Notice& report, TimePoint now, std::vector<Notice>& decisions);
  /// Notes that rank 0 awaits `tensor`, for Urgency::kAwaited. The first time counts.
  void awaited(std::uint32_t tensor);
  /// Appends a kOrder for each piece that may start now, after the kAbsent notices of its bucket.
  /// These pieces are in flight then.
  void order(std::vector<Notice>& decisions);
  /// Notes that a piece has ended on rank 0.
  void finished(const Order& order) noexcept;

  /// A tensor that some ranks have reported and others not.
  struct Incomplete {
    std::uint32_t tensor = 0;
    std::uint64_t step = 0;
    TimePoint since;             ///< the first report
    std::vector<bool> reported;  ///< by rank
  };
  /// All of them, in the order of their first reports.
  [[nodiscard]] const std::list<Incomplete>& incomplete() const noexcept { return incomplete_; }

 private:
  struct TensorState {
    int reports = 0;
    int contributions = 0;
    std::list<Incomplete>::iterator place;  // in incomplete_ or complete_
  };
  struct UnitState {
    std::uint32_t complete = 0;  // complete tensors
    // A bucket's rounds that have not had their turn: completed empty, and one that is to be sent.
    std::uint64_t empty_rounds = 0;
    bool is_due = false;
  };

  void complete(std::uint32_t unit, TimePoint now, std::vector<Notice>& decisions);
  void queue(std::uint32_t unit, TimePoint since, std::uint32_t order);
  void queue_buckets(TimePoint now);

  const Plan& plan_;
  const Policy policy_;
  const Urgency urgency_;
  const int ranks_;
  std::vector<TensorState> tensors_;
  std::vector<UnitState> units_;
  std::list<Incomplete> incomplete_;
  std::list<Incomplete> complete_;         // the others: no node is ever made again
  std::vector<std::uint32_t> urgency_of_;  // by tensor; the smallest comes first
  std::vector<bool> was_awaited_;
  std::uint32_t awaited_ = 0;
  CreditQueue queue_;
  std::uint32_t next_bucket_ = 0;  // kBucketed: whose turn it is
  std::uint32_t turns_ = 0;        // so far
};

}  // namespace leat::comm
