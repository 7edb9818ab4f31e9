// Who is late and who has left, as a server's fiber sees it.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "leat/comm/server/party.h"

namespace leat::comm {
namespace {

constexpr Duration kLeeway = std::chrono::milliseconds(250);  // half of a worker's own

}  // namespace

void Party::tell_late(std::uint32_t owned, std::size_t worker, std::size_t missing) {
  share(owned, worker).is_wanted = false;
  const Worker& one = workers_[missing];
  const bool gave_up = one.waited_for >= 0;  // then another rank is the cause
  const int rank = gave_up ? one.waited_for : world_ranks_[static_cast<std::size_t>(one.rank)];
  tell(workers_[worker].rank, {.kind = kLate,
                               .tensor = plan_.pieces[owned_[owned].piece].tensor,
                               .piece = one.has_left && !gave_up ? 1U : 0U,
                               .value = static_cast<std::uint64_t>(rank)});
}

// Tells the workers that wait for the end of a round who is missing: those that have waited for the
// deadline, or all, if a worker has left that is missing.
void Party::tell_of_round(bool only_left) {
  const TimePoint now = world_.time();
  for (std::size_t waits = 0; waits < workers_.size(); ++waits) {
    Worker& one = workers_[waits];
    if (one.awaited < round_ || one.has_left) continue;
    if (!only_left && Deadline::after(one.awaited_since, world_.options().deadline).at() > now) {
      continue;
    }
    std::optional<std::pair<std::uint32_t, std::size_t>> missing;  // an owned piece, a worker
    for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
      if (owned_[owned].version >= round_) continue;
      for (std::size_t w = 0; w < workers_.size(); ++w) {
        if (has_come(owned, w, round_)) continue;
        const bool is_cause = workers_[w].has_left || workers_[w].asked.has_value();
        if (!missing.has_value() || is_cause) missing.emplace(owned, w);
      }
    }
    if (!missing.has_value() || (only_left && !workers_[missing->second].has_left)) continue;
    if (!only_left && !is_told(one.awaited_since, workers_[missing->second], now)) continue;
    one.awaited = 0;
    tell_late(missing->first, waits, missing->second);
  }
}

void Party::worker_left(const Notice& notice) {
  Worker& worker = workers_[worker_of(notice.from)];
  worker.has_left = true;
  worker.waited_for = static_cast<int>(notice.value) - 1;
  if (options_.synchronous) tell_of_round(/*only_left=*/true);
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) offer_all(owned);
  check_served();
}

void Party::check_served() {
  if (!std::ranges::all_of(workers_, &Worker::has_left)) return;
  if (!fail_served()) served_bell_.ring();
}

// Fails if a worker has left because a rank did not come. Returns whether.
bool Party::fail_served() {
  const auto one = std::ranges::find_if(
      workers_, [](int rank) { return rank >= 0; }, &Worker::waited_for);
  if (one == workers_.end()) return false;
  const std::string left = std::to_string(world_ranks_[static_cast<std::size_t>(one->rank)]);
  world_.fail({.peer = one->waited_for,
               .operation = "serve",
               .what = "rank " + left + " has left because it waited for rank " +
                       std::to_string(one->waited_for) + ", which did not come"},
              /*tell=*/false);
  return true;
}

// Whether this fetch of the piece waits; not if a later one does.
bool Party::is_open(const Wanted& one) noexcept {
  const Share& fetch = share(one.owned, one.worker);
  return fetch.is_wanted && fetch.wanted_since == one.since;
}

TimePoint Party::next_deadline_of_server() {
  TimePoint due = TimePoint::max();
  const Duration deadline = world_.options().deadline;
  const auto first = std::ranges::find_if(wanted_, [&](const Wanted& one) { return is_open(one); });
  wanted_.erase(wanted_.begin(), first);
  const auto told_at = [&](TimePoint since) {
    const TimePoint late = Deadline::after(since, deadline).at();
    return late > world_.time() ? late : Deadline::after(late, kLeeway).at();
  };
  if (!wanted_.empty()) due = told_at(wanted_.front().since);
  for (const Worker& worker : workers_) {
    if (worker.has_left || worker.awaited < round_) continue;
    due = std::min(due, told_at(worker.awaited_since));
  }
  for (const Worker& worker : workers_) due = std::min(due, ask_at(worker));
  return std::min(due, all_silent_at());
}

// Whether somebody who has waited for the worker since then is told now: after the deadline. If the
// worker answers, a little later: a server that is dead may hold it up, and it finds that out
// first.
bool Party::is_told(TimePoint since, const Worker& missing, TimePoint now) const {
  const TimePoint late = Deadline::after(since, world_.options().deadline).at();
  if (world_.is_virtual() || missing.has_left || is_silent(missing.asked, now)) return late <= now;
  return Deadline::after(late, kLeeway).at() <= now;
}

// When a worker is asked whether it lives, while somebody waits. Its fiber answers, whatever its
// trainer does. In virtual time nobody is asked: there all ranks are in this process, and time
// would never stand still.
TimePoint Party::ask_at(const Worker& worker) const {
  const bool any_waits =
      is_serving_ || !wanted_.empty() ||
      std::ranges::any_of(workers_, [&](const Worker& one) { return one.awaited >= round_; });
  if (!any_waits || worker.has_left || worker.asked.has_value() || world_.is_virtual()) {
    return TimePoint::max();
  }
  return Deadline::after(worker.heard, world_.options().deadline / 2).at();
}

// When none of the workers that have not left has answered for the rest of the deadline. While one
// of them lives, it is served.
TimePoint Party::all_silent_at() const {
  if (!is_serving_) return TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const Worker& one : workers_) {
    if (!one.has_left) last = std::max(last, one.asked.value_or(TimePoint::max()));
  }
  return last == TimePoint::min() ? TimePoint::max()
                                  : Deadline::after(last, world_.options().deadline / 2).at();
}

void Party::check_workers(TimePoint now) {
  for (const Wanted& one : wanted_) {
    const Share& fetch = share(one.owned, one.worker);
    if (!is_open(one)) continue;
    const auto missing = waits_for(one.owned, fetch);
    if (missing && is_told(one.since, workers_[*missing], now)) {
      tell_late(one.owned, one.worker, *missing);
    }
  }
  if (options_.synchronous) tell_of_round(/*only_left=*/false);
  for (Worker& one : workers_) {
    if (ask_at(one) > now) continue;
    one.asked = now;
    tell(one.rank, {.kind = kAsk});
  }
  if (all_silent_at() > now) return;
  if (fail_served()) return;
  const Worker* silent = nullptr;  // for longest
  for (const Worker& one : workers_) {
    if (!one.has_left && (silent == nullptr || one.heard < silent->heard)) silent = &one;
  }
  const int rank = world_ranks_[static_cast<std::size_t>(silent->rank)];
  world_.fail({.peer = rank,
               .operation = "serve",
               .what = "rank " + std::to_string(rank) +
                       " has not answered by the deadline: it is stopped or dead"},
              /*tell=*/false);
}

}  // namespace leat::comm
