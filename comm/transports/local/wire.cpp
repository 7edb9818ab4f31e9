#include "leat/comm/transports/local/wire.h"

#include <algorithm>
#include <cmath>

namespace leat::comm {

// To the nearest nanosecond: the nanoseconds of a whole number of them are exact.
Duration Wire::time_of(const Meeting& meeting) const noexcept {
  const Signature& what = meeting.signature;
  const auto ranks = static_cast<long double>(meeting.group->size());
  long double share = 0;
  switch (what.kind) {
    case OperationKind::kAllReduce: share = 2 * (ranks - 1); break;
    case OperationKind::kReduceScatter:
    case OperationKind::kAllGather: share = ranks - 1; break;
    case OperationKind::kBroadcast:
    case OperationKind::kSend:
    case OperationKind::kRecv: share = ranks; break;
    case OperationKind::kBarrier: break;
  }
  if (!(model_.bandwidth > 0)) return model_.alpha;
  const long double bytes =
      static_cast<long double>(what.count) * static_cast<long double>(gpu::size_of(what.dtype));
  const long double nanoseconds =
      share * bytes * 1e9L / (ranks * static_cast<long double>(model_.bandwidth));
  constexpr long double kLongest = 1e18L;  // 30 years
  return std::min<Duration>(model_.alpha, Duration(1'000'000'000'000'000'000)) +
         Duration(std::llround(std::min(nanoseconds, kLongest)));
}

std::pair<TimePoint&, TimePoint&> Wire::lines_of(const Meeting& meeting) noexcept {
  if (meeting.key.from < 0) return {free_at_.back(), free_at_.back()};
  const auto line = [&](int rank) {
    return 2 * static_cast<std::size_t>(meeting.group->member(rank));
  };
  return {free_at_[line(meeting.key.from)], free_at_[line(meeting.key.to) + 1]};
}

// Greedy: starts each that waits, in its order, if its lines are free.
void Wire::start(TimePoint at) noexcept {
  started_at_ = at;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Meeting& one = *next++;
    const auto [out, in] = lines_of(one);
    if (std::max(out, in) > at) continue;
    one.end = out = in = Deadline::after(at, time_of(one)).at();
    running_.splice(std::ranges::upper_bound(running_, one.end, {}, &Meeting::end), waiting_,
                    one.self);
  }
}

// Starts what the ends of others by `now` leave lines free for, each at its time. What starts comes
// behind the one whose end that is.
void Wire::advance(TimePoint now) noexcept {
  for (auto one = running_.begin(); one != running_.end() && one->end <= now; ++one) {
    if (one->end > started_at_) start(one->end);
  }
}

void Wire::add(std::list<Meeting>& from, Meeting& meeting, TimePoint now) noexcept {
  advance(now);
  waiting_.splice(waiting_.end(), from, meeting.self);
  start(now);
}

Meeting* Wire::pop(TimePoint now, std::list<Meeting>& to) noexcept {
  advance(now);
  if (running_.empty() || running_.front().end > now) return nullptr;
  to.splice(to.end(), running_, running_.begin());
  return &to.back();
}

void Wire::post(std::list<Posted>& from, TimePoint now) noexcept {
  from.front().at = Deadline::after(now, model_.delta).at();
  notices_.splice(notices_.end(), from, from.begin());
}

bool Wire::pop_notice(TimePoint now, std::list<Posted>& to) noexcept {
  if (notices_.empty() || notices_.front().at > now) return false;
  to.splice(to.end(), notices_, notices_.begin());
  return true;
}

TimePoint Wire::next() const noexcept {
  return std::min(running_.empty() ? TimePoint::max() : running_.front().end,
                  notices_.empty() ? TimePoint::max() : notices_.front().at);
}

}  // namespace leat::comm
