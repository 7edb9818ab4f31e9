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
      credit_(options.credit_bytes),
      ranks_(ranks),
      tensors_(plan.gradients.size()),
      units_(plan.units.size()),
      urgency_of_(plan.gradients.size()),
      was_awaited_(plan.gradients.size()) {
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    complete_.push_back(
        {.tensor = i, .reported = std::vector<bool>(static_cast<std::size_t>(ranks))});
    tensors_[i].place = std::prev(complete_.end());
  }
  std::iota(urgency_of_.begin(), urgency_of_.end(), 0U);
  queue_.reserve(plan.units.size());
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
    return;
  }
  state.next_piece = 0;
  state.is_queued = true;
  if (policy_ == Policy::kBucketed) return;
  // A unit is one tensor here.
  const Queued one = policy_ == Policy::kFifo ? Queued{now, ~unit, unit}
                                              : Queued{TimePoint(), urgency_of_[unit], unit};
  const auto place = std::ranges::find_if(queue_, [&](const Queued& other) {
    return std::pair(other.since, other.order) < std::pair(one.since, one.order);
  });
  queue_.insert(place, one);
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

std::optional<std::uint32_t> Leader::first() noexcept {
  if (policy_ != Policy::kBucketed) {
    if (queue_.empty()) return std::nullopt;
    return queue_.back().unit;
  }
  if (units_.empty()) return std::nullopt;
  // An empty round came before the one that is queued now, if there are both.
  while (units_[next_bucket_].empty_rounds > 0) {
    --units_[next_bucket_].empty_rounds;
    next_bucket_ = (next_bucket_ + 1) % static_cast<std::uint32_t>(units_.size());
  }
  if (!units_[next_bucket_].is_queued) return std::nullopt;
  return next_bucket_;
}

void Leader::order(std::vector<Notice>& decisions) {
  while (const std::optional<std::uint32_t> unit = first()) {
    UnitState& state = units_[*unit];
    const Unit& what = plan_.units[*unit];
    const std::uint64_t bytes = what.bytes_of(state.next_piece);
    if (in_flight_ > 0 && in_flight_ + bytes > credit_) return;

    if (state.next_piece == 0) {
      for (const std::uint32_t tensor : what.tensors) {
        if (std::exchange(tensors_[tensor].contributions, 0) > 0) continue;
        decisions.push_back({.kind = kAbsent, .tensor = tensor});
      }
    }
    const Order order{*unit, state.next_piece++};
    decisions.push_back({.kind = kOrder, .tensor = order.unit, .piece = order.piece});
    in_flight_ += bytes;
    if (state.next_piece < what.pieces) continue;
    state.is_queued = false;
    if (policy_ == Policy::kBucketed) {
      next_bucket_ = (next_bucket_ + 1) % static_cast<std::uint32_t>(units_.size());
    } else {
      queue_.pop_back();
    }
  }
}

void Leader::finished(const Order& order) noexcept {
  in_flight_ -= plan_.units[order.unit].bytes_of(order.piece);
}

}  // namespace leat::comm
