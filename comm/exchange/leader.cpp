#include "leat/comm/exchange/leader.h"

#include <algorithm>
#include <numeric>

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
  for (TensorState& one : tensors_) one.reported.resize(static_cast<std::size_t>(ranks));
  std::iota(urgency_of_.begin(), urgency_of_.end(), 0U);
  queue_.reserve(plan.units.size());
}

void Leader::report(int rank, std::uint32_t tensor, bool given, TimePoint now,
                    std::vector<std::uint32_t>& empty) {
  TensorState& one = tensors_[tensor];
  if (one.reports == 0) {
    one.since = now;
    link(tensor);
  }
  one.reported[static_cast<std::size_t>(rank)] = true;
  one.contributions += given ? 1 : 0;
  if (++one.reports < ranks_) return;

  one.reports = 0;
  one.reported.assign(one.reported.size(), false);
  unlink(tensor);
  const std::uint32_t unit = plan_.unit_of[tensor];
  if (++units_[unit].complete == plan_.units[unit].tensors.size()) complete(unit, now, empty);
}

void Leader::complete(std::uint32_t unit, TimePoint now, std::vector<std::uint32_t>& empty) {
  UnitState& state = units_[unit];
  state.complete = 0;
  const std::vector<std::uint32_t>& tensors = plan_.units[unit].tensors;
  const bool contributed = std::ranges::any_of(
      tensors, [&](std::uint32_t tensor) { return tensors_[tensor].contributions > 0; });
  if (!contributed || plan_.units[unit].pieces == 0) {
    for (const std::uint32_t tensor : tensors) tensors_[tensor].contributions = 0;
    empty.insert(empty.end(), tensors.begin(), tensors.end());
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

std::optional<Order> Leader::next(std::vector<std::uint32_t>& absent) {
  const std::optional<std::uint32_t> unit = first();
  if (!unit.has_value()) return std::nullopt;
  UnitState& state = units_[*unit];
  const Unit& what = plan_.units[*unit];
  const std::uint64_t bytes = what.bytes_of(state.next_piece);
  if (in_flight_ > 0 && in_flight_ + bytes > credit_) return std::nullopt;

  if (state.next_piece == 0) {
    for (const std::uint32_t tensor : what.tensors) {
      if (tensors_[tensor].contributions == 0) absent.push_back(tensor);
      tensors_[tensor].contributions = 0;
    }
  }
  const Order order{*unit, state.next_piece++};
  in_flight_ += bytes;
  if (state.next_piece == what.pieces) {
    state.is_queued = false;
    if (policy_ == Policy::kBucketed) {
      next_bucket_ = (next_bucket_ + 1) % static_cast<std::uint32_t>(units_.size());
    } else {
      queue_.pop_back();
    }
  }
  return order;
}

void Leader::finished(const Order& order) noexcept {
  in_flight_ -= plan_.units[order.unit].bytes_of(order.piece);
}

// ---- incomplete tensors, the oldest first

void Leader::link(std::uint32_t tensor) noexcept {
  tensors_[tensor].older = newest_;
  tensors_[tensor].newer = kNone;
  (newest_ != kNone ? tensors_[newest_].newer : oldest_) = tensor;
  newest_ = tensor;
}

void Leader::unlink(std::uint32_t tensor) noexcept {
  const TensorState& one = tensors_[tensor];
  (one.older != kNone ? tensors_[one.older].newer : oldest_) = one.newer;
  (one.newer != kNone ? tensors_[one.newer].older : newest_) = one.older;
}

std::optional<TimePoint> Leader::oldest_incomplete() const noexcept {
  if (oldest_ == kNone) return std::nullopt;
  return tensors_[oldest_].since;
}

Leader::Incomplete Leader::incomplete() const {
  const TensorState& one = tensors_[oldest_];
  Incomplete found{.tensor = oldest_, .since = one.since, .missing = {}};
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!one.reported[static_cast<std::size_t>(rank)]) found.missing.push_back(rank);
  }
  return found;
}

std::optional<std::uint32_t> Leader::waits_for(int rank) const noexcept {
  for (std::uint32_t tensor = oldest_; tensor != kNone; tensor = tensors_[tensor].newer) {
    if (!tensors_[tensor].reported[static_cast<std::size_t>(rank)]) return tensor;
  }
  return std::nullopt;
}

}  // namespace leat::comm
