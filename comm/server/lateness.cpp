// Who is missing and who has left, as a server's fiber sees it.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "leat/comm/server/party.h"

namespace leat::comm {

// ---- who has left

void Party::tell_missing(std::uint32_t owned, std::size_t worker, std::size_t missing) {
  share(owned, worker).is_wanted = false;
  const Worker& one = workers_[missing];
  const bool failed = one.blames >= 0;  // then another rank is the cause
  tell(workers_[worker].rank,
       {.kind = kMissing,
        .tensor = plan_.pieces[owned_[owned].piece].tensor,
        .piece = failed ? 1U : 0U,
        .value = static_cast<std::uint64_t>(failed ? one.blames : wait_for(missing).rank)});
}

// Tells the workers that wait for the end of a round, if a worker has left that is missing.
void Party::tell_of_round() {
  for (std::size_t waits = 0; waits < workers_.size(); ++waits) {
    if (workers_[waits].awaited < round_ || workers_[waits].has_left) continue;
    for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
      if (owned_[owned].version >= round_) continue;
      for (std::size_t w = 0; w < workers_.size(); ++w) {
        if (!workers_[w].has_left || has_come(owned, w, round_)) continue;
        workers_[waits].awaited = 0;
        return tell_missing(owned, waits, w);
      }
    }
  }
}

void Party::worker_left(std::size_t worker, int blames) {
  if (std::exchange(workers_[worker].has_left, true)) return;
  workers_[worker].blames = blames;
  if (options_.synchronous) tell_of_round();
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) offer_all(owned);
  check_served();
}

void Party::check_served() {
  if (!std::ranges::all_of(workers_, &Worker::has_left)) return;
  std::optional<Failure> failure = failure_of_served();
  if (!failure) return served_bell_.ring();
  world_.fail(std::move(*failure), /*tell=*/false);
}

// If a worker has failed because a rank did not come.
std::optional<Failure> Party::failure_of_served() const {
  const auto one = std::ranges::find_if(
      workers_, [](int rank) { return rank >= 0; }, &Worker::blames);
  if (one == workers_.end()) return std::nullopt;
  const std::string left = std::to_string(world_ranks_[static_cast<std::size_t>(one->rank)]);
  return Failure{.peer = one->blames,
                 .operation = "serve",
                 .what = "rank " + left + " has failed because it waited for rank " +
                         std::to_string(one->blames) + ", which did not come"};
}

// ---- whom a server waits for

Wait Party::wait_for(std::size_t worker) const {
  return {.rank = world_ranks_[static_cast<std::size_t>(workers_[worker].rank)]};
}

// The workers for which what this one waits for waits.
void Party::add_missing(std::size_t worker, Answer& answer) {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
      const Share& one = share(owned, worker);
      const bool holds_fetch = one.is_wanted && is_missing(owned, w, one);
      const bool holds_round = workers_[worker].awaited >= round_ &&
                               owned_[owned].version < round_ && !has_come(owned, w, round_);
      if (!holds_fetch && !holds_round) continue;
      answer.waits = true;
      answer.whom.push_back(wait_for(w));
      break;
    }
  }
}

// While a server serves: when nothing was heard of the workers for a deadline. In one process none
// is lost.
TimePoint Party::probe_at() const {
  if (!is_serving_ || world_.is_in_one_process()) return TimePoint::max();
  return Deadline::after(heard_, world_.options().deadline).at();
}

// While one of the workers answers, it is served.
void Party::probe_workers() {
  heard_ = world_.time();
  std::vector<Wait> all;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].has_left) all.push_back(wait_for(w));
  }
  if (all.empty()) return;
  const std::string rank = std::to_string(all.front().rank);
  Failure silent = failure_of_served().value_or(
      Failure{.peer = all.front().rank,
              .operation = "serve",
              .what = "rank " + rank + " has not answered by the deadline: it is stopped or dead"});
  world_.accuse({.failure = std::move(silent),
                 .missing = std::move(all),
                 .tell = false,
                 .only_silent = true});
}

}  // namespace leat::comm
