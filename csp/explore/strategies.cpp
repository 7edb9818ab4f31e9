#include "leat/csp/explore/strategies.h"

#include <algorithm>
#include <utility>

#include "leat/csp/base/random.h"

namespace leat {

std::size_t Replay::choose(const ChoicePoint& /*point*/) {
  const std::uint64_t index = index_++;
  if (next_ == decisions_.size() || decisions_[next_].first != index) return 0;
  return decisions_[next_++].second;
}

// ---- sampling

std::uint64_t Sampling::below(std::uint64_t bound) noexcept {
  return mix(random_ += kRandomStep) % bound;
}

void Sampling::begin(std::uint64_t choices) {
  index_ = 0;
  walks_ = run_ % 4 == 3;
  for (std::uint64_t& priority : priority_) priority = kMostChanges + below(1U << 30U);
  changes_at_.clear();
  const std::uint64_t changes = 1 + run_ % kMostChanges;
  for (std::uint64_t i = 0; i < changes; ++i) changes_at_.push_back(below(choices + 1));
  ++run_;
}

std::size_t Sampling::choose(const ChoicePoint& point) {
  const std::uint64_t index = index_++;
  if (point.threads.empty()) return below(point.count);
  // The alternatives after `awake` are sleeping threads whose deadline may pass now. Chosen rarely,
  // because the same choice comes again and again.
  const std::size_t awake = point.awake;
  if (awake < point.count && below(32) == 0) return awake + below(point.count - awake);
  if (walks_) return below(awake);
  const auto priority = [&](std::size_t i) -> std::uint64_t& {
    return priority_[static_cast<std::size_t>(point.threads[i])];
  };
  std::size_t first = 0;
  for (std::size_t i = 1; i < awake; ++i) {
    if (priority(i) > priority(first)) first = i;
  }
  for (std::size_t change = 0; change < changes_at_.size(); ++change) {
    if (changes_at_[change] != index) continue;
    priority(first) = change;
    first = 0;
    for (std::size_t i = 1; i < awake; ++i) {
      if (priority(i) > priority(first)) first = i;
    }
  }
  return first;
}

// ---- enumerating

bool Exhaustive::next() {
  index_ = 0;
  followed_ = 0;
  known_ = false;
  if (open_.empty()) {
    if (bound_ == preemptions_ || more_ == 0) return false;
    ++bound_;
    more_ = 0;
    prefix_.clear();
    std::fill(seen_.begin(), seen_.end(), SeenState{});
    seen_count_ = 0;
    left_ = bound_;
    return true;
  }
  OpenChoice& open = open_.back();
  const auto choice = static_cast<std::size_t>(__builtin_ctzll(open.untried));
  open.untried &= open.untried - 1;
  prefix_.resize(open.decisions);
  prefix_.emplace_back(open.index, choice);
  if (open.untried == 0) open_.pop_back();
  left_ = bound_;
  return true;
}

std::size_t Exhaustive::choose(const ChoicePoint& point) {
  const std::uint64_t index = index_++;
  if (followed_ < prefix_.size()) {
    if (prefix_[followed_].first != index) return 0;
    const std::size_t choice = prefix_[followed_++].second;
    if (choice >= point.free) --left_;
    return choice;
  }
  if (known_) return 0;
  const std::size_t allowed = std::min<std::size_t>(left_ > 0 ? point.count : point.free, 64);
  if (allowed < point.count) ++more_;
  if (allowed == 1) return 0;
  if (remembers_ && seen(point.state, left_)) {
    known_ = true;
    return 0;
  }
  const std::uint64_t all = allowed == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << allowed) - 1;
  open_.push_back({index, prefix_.size(), all & ~std::uint64_t{1}});
  return 0;
}

bool Exhaustive::seen(std::uint64_t state, int left) {
  if (2 * seen_count_ >= seen_.size()) grow();
  std::size_t i = state % seen_.size();
  while (seen_[i].left >= 0 && seen_[i].state != state) i = (i + 1) % seen_.size();
  if (seen_[i].left >= left) return true;
  if (seen_[i].left < 0) ++seen_count_;
  seen_[i] = {state, left};
  return false;
}

void Exhaustive::grow() {
  std::vector<SeenState> old(2 * seen_.size());
  old.swap(seen_);
  for (const SeenState& one : old) {
    if (one.left < 0) continue;
    std::size_t i = one.state % seen_.size();
    while (seen_[i].left >= 0) i = (i + 1) % seen_.size();
    seen_[i] = one;
  }
}

}  // namespace leat
