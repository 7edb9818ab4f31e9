#include "leat/comm/exchange/leader.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace leat::comm {

Leader::Leader(const Plan& plan, const ExchangeOptions& options, int ranks)
    : plan_(plan),
      policy_(options.policy),
      urgency_(options.urgency),
      ranks_(ranks),
      tensors_(plan.gradients.size()),
      units_(plan.units.size()),
      urgency_of_(plan.gradients.size()),
      was_awaited_(plan.gradients.size()),
      queue_(options.credit_bytes, plan.pieces) {
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    complete_.push_back(
        {.tensor = i, .reported = std::vector<bool>(static_cast<std::size_t>(ranks))});
    tensors_[i].place = std::prev(complete_.end());
  }
  std::iota(urgency_of_.begin(), urgency_of_.end(), 0U);
}

void Leader::report(const Notice& report, TimePoint now, std::vector<Notice>& decisions) {
  TensorState& one = tensors_[report.tensor];
  if (one.reports == 0) {
    one.place->step = report.step;
    one.place->since = now;
    incomplete_.splice(incomplete_.end(), complete_, one.place);
  }
  one.place->reported[static_cast<std::size_t>(report.from)] = true;
  one.contributions += report.value != 0 ? 1 : 0;
  if (++one.reports < ranks_) return;

  one.reports = 0;
  one.place->reported.assign(one.place->reported.size(), false);
  complete_.splice(complete_.end(), incomplete_, one.place);
  const std::uint32_t unit = plan_.unit_of[report.tensor];
  if (++units_[unit].complete == plan_.units[unit].tensors.size()) complete(unit, now, decisions);
}

void Leader::complete(std::uint32_t unit, TimePoint now, std::vector<Notice>& decisions) {
  UnitState& state = units_[unit];
  state.complete = 0;
  const std::vector<std::uint32_t>& tensors = plan_.units[unit].tensors;
  const bool contributed = std::ranges::any_of(
      tensors, [&](std::uint32_t tensor) { return tensors_[tensor].contributions > 0; });
  if (!contributed || plan_.units[unit].pieces == 0) {
    for (const std::uint32_t tensor : tensors) {
      tensors_[tensor].contributions = 0;
      decisions.push_back({.kind = kEmpty, .tensor = tensor});
    }
    ++state.empty_rounds;
  } else if (policy_ == Policy::kBucketed) {
    state.is_due = true;
  } else if (policy_ == Policy::kFifo) {  // at one instant, the tensor declared last comes first
    queue(unit, now, ~unit);
  } else {
    queue(unit, TimePoint(), urgency_of_[unit]);  // a unit is one tensor here
  }
  if (policy_ == Policy::kBucketed) queue_buckets(now);
}

void Leader::queue(std::uint32_t unit, TimePoint since, std::uint32_t order) {
  for (std::uint32_t piece = 0; piece < plan_.units[unit].pieces; ++piece) {
    queue_.queue({since, order, piece, unit, plan_.units[unit].bytes_of(piece)});
  }
}

// Those whose turn it is. An empty round came before the one that is due now, if there are both.
void Leader::queue_buckets(TimePoint now) {
  for (;;) {
    UnitState& next = units_[next_bucket_];
    if (next.empty_rounds > 0) {
      --next.empty_rounds;
    } else if (std::exchange(next.is_due, false)) {
      queue(next_bucket_, now, turns_++);
    } else {
      return;
    }
    next_bucket_ = (next_bucket_ + 1) % static_cast<std::uint32_t>(units_.size());
  }
}

void Leader::awaited(std::uint32_t tensor) {
  if (urgency_ != Urgency::kAwaited || was_awaited_[tensor]) return;
  // Those that were awaited come first, in that order; the others stay as declared behind them.
  was_awaited_[tensor] = true;
  for (std::uint32_t& other : urgency_of_) {
    if (other >= awaited_ && other < urgency_of_[tensor]) ++other;
  }
  urgency_of_[tensor] = awaited_++;
}

void Leader::order(std::vector<Notice>& decisions) {
  while (const std::optional<CreditQueue::Entry> next = queue_.next()) {
    for (const std::uint32_t tensor : plan_.units[next->unit].tensors) {
      if (next->piece > 0 || std::exchange(tensors_[tensor].contributions, 0) > 0) continue;
      decisions.push_back({.kind = kAbsent, .tensor = tensor});
    }
    decisions.push_back({.kind = kOrder, .tensor = next->unit, .piece = next->piece});
  }
}

void Leader::finished(const Order& order) noexcept {
  queue_.finished(plan_.units[order.unit].bytes_of(order.piece));
}

}  // namespace leat::comm
