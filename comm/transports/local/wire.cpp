#include "leat/comm/transports/local/wire.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace leat::comm {
namespace {

bool is_send(const Meeting& meeting) noexcept {
  return meeting.signature.kind == OperationKind::kSend;
}

}  // namespace

Wire::Wire(const LinkModel& model, int ranks)
    : model_(model), out_(static_cast<std::size_t>(ranks)), in_(static_cast<std::size_t>(ranks)) {}

// To the nearest nanosecond: the nanoseconds of a whole number of them are exact.
Duration Wire::time_of(const Meeting& meeting) const noexcept {
  const Signature& what = meeting.signature;
  const auto ranks = static_cast<long double>(meeting.group.size());
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

void Wire::insert(Meeting& meeting) noexcept {
  Meeting** place = &ending_;
  while (*place != nullptr && (*place)->end <= meeting.end) place = &(*place)->next;
  meeting.next = *place;
  *place = &meeting;
}

// Greedy: each send in the order of matching, if both of its lines are free.
void Wire::start_sends(TimePoint at) noexcept {
  Fifo<Meeting> still_waiting;
  while (Meeting* const one = waiting_.pop()) {
    const auto [from, to] = one->group.line_of(*one->operations.front());
    auto out = out_[static_cast<std::size_t>(from)];
    auto in = in_[static_cast<std::size_t>(to)];
    if (out || in) {
      still_waiting.push(*one);
      continue;
    }
    out = in = true;
    one->has_lines = true;
    one->end = Deadline::after(at, time_of(*one)).at();
    insert(*one);
  }
  waiting_ = still_waiting;
}

// Frees the lines of the sends that have ended by `now`, and starts others, each at its time.
void Wire::advance(TimePoint now) noexcept {
  for (Meeting* one = ending_; one != nullptr && one->end <= now;) {
    if (!one->has_lines) {
      one = one->next;
      continue;
    }
    const TimePoint at = one->end;
    for (; one != nullptr && one->end == at; one = one->next) {  // all of this instant
      if (!one->has_lines) continue;
      const auto [from, to] = one->group.line_of(*one->operations.front());
      out_[static_cast<std::size_t>(from)] = in_[static_cast<std::size_t>(to)] = false;
      one->has_lines = false;
    }
    start_sends(at);
    one = ending_;  // what started may end before what was seen
  }
}

void Wire::add(Meeting& meeting, TimePoint now) noexcept {
  if (is_send(meeting)) {
    advance(now);
    waiting_.push(meeting);
    start_sends(now);
    return;
  }
  link_is_free_ = Deadline::after(std::max(now, link_is_free_), time_of(meeting)).at();
  meeting.end = link_is_free_;
  insert(meeting);
}

void Wire::post(Posted& notice, TimePoint now) noexcept {
  notice.at = Deadline::after(now, model_.delta).at();
  notices_.push(notice);
}

Meeting* Wire::pop(TimePoint now) noexcept {
  advance(now);
  if (ending_ == nullptr || ending_->end > now) return nullptr;
  return std::exchange(ending_, ending_->next);
}

Posted* Wire::pop_notice(TimePoint now) noexcept {
  if (notices_.first == nullptr || notices_.first->at > now) return nullptr;
  return notices_.pop();
}

TimePoint Wire::next() const noexcept {
  TimePoint at = ending_ != nullptr ? ending_->end : TimePoint::max();
  if (notices_.first != nullptr) at = std::min(at, notices_.first->at);
  return at;
}

}  // namespace leat::comm
