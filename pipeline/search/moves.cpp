#include "leat/pipeline/search/moves.h"

#include <algorithm>

namespace leat::pipeline {

Moves::Moves(const Chains& chains, Ticks pace, bool settled)
    : chains_(chains), pace_(pace), free_(chains.size()), kept_(chains.size()) {
  const auto longest = [&](std::size_t rank) {
    Ticks most = 0;
    for (const std::size_t chain : chains_.of_rank(rank)) {
      most = std::max(most, chains_[chain].length);
    }
    return most;
  };
  std::size_t word = free_ + chains_.ranks();
  bool shared = false;  // a rank has several stages
  for (std::size_t rank = 0; rank < chains_.ranks(); ++rank) {
    shared |= chains_.stages_of(rank).size() > 1;
  }
  for (std::size_t user = 0; user < chains_.size(); ++user) {
    for (const Precedence& need : chains_[user].needs) {
      const Chain& from = chains_[need.chain];
      if (from.rank == chains_[user].rank) continue;
      // No placed element begins at or after the end of first_to_end(), and none that is still to
      // be placed ends before that end. So a value that is older than these places arrives before
      // its user's rank can begin anything.
      Ticks places = std::max(chains_.limit(from.rank), chains_.limit(chains_[user].rank));
      if (settled && from.length > 0) {
        const Ticks spread = longest(from.rank) + longest(chains_[user].rank) + need.delay - 1;
        places = std::min(places, (spread + from.length - 1) / from.length);
      }
      places = std::clamp<Ticks>(places, 1, chains_.microbatches());
      kept_[need.chain] = {.first = word,
                           .places = static_cast<std::size_t>(places),
                           .user = user,
                           .delay = need.delay};
      word += static_cast<std::size_t>(places);
    }
  }
  barred_ = word;
  words_ = barred_ + (shared ? (chains_.size() + kBits - 1) / kBits : 0);
}

State Moves::begin() const {
  State state(words_, 0);
  settle(state, first_to_end(state));
  return state;
}

// Whether a rank with several stages may do one more F. Its activations have to be within the
// limit, and so have those that it cannot avoid later: the oldest microbatch that has not reached
// the rank's last stage needs an activation at each stage of the rank at once, before any younger
// one is freed.
bool Moves::fits(StateView state, const Chain& chain) const noexcept {
  const std::vector<std::size_t>& row = chains_.stages_of(chain.rank);
  if (row.size() == 1) return true;  // its needs say all
  const auto forwards = [&](std::size_t stage) {
    return state[Chains::forward(stage)] + (stage == chain.stage ? 1 : 0);
  };
  const Ticks oldest = forwards(row.back());
  Ticks alive = 0;
  Ticks younger = 0;
  for (const std::size_t stage : row) {
    alive += forwards(stage) - state[chains_.frees(stage)];
    younger += std::max<Ticks>(0, forwards(stage) - oldest - 1);
  }
  const Ticks limit = chains_.limit(chain.rank);
  return alive <= limit &&
         (oldest == chains_.microbatches() || younger + static_cast<Ticks>(row.size()) <= limit);
}

bool Moves::is_barred(StateView state, std::size_t chain) const noexcept {
  return barred_ != words_ && (state[barred_ + chain / kBits] >> (chain % kBits) & 1) != 0;
}

Moves::Move Moves::next(StateView state, std::size_t chain) const noexcept {
  const Ticks k = state[chain];
  const Chain& own = chains_[chain];
  if (k == chains_.microbatches() || is_barred(state, chain)) return {};
  Ticks begin = free_at(state, own.rank);
  if (chain == Chains::forward(0)) begin = std::max(begin, k * pace_);
  for (const Precedence& need : own.needs) {
    const Ticks needed = k - need.back;
    if (needed < 0) continue;
    if (state[need.chain] <= needed) return {};
    // What its own rank has placed ends before the rank is free.
    if (kept_[need.chain].places > 0 && kept_[need.chain].user == chain) {
      begin = std::max(begin, arrival(state, need.chain, needed));
    }
  }
  if (own.op == Op::kForward && !fits(state, own)) return {};
  return {.chain = chain, .begin = begin, .end = begin + own.length};
}

Moves::Move Moves::first_to_end(StateView state) const noexcept {
  Move first;
  bool postponable = true;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const Move move = next(state, chain);
    if (!move.exists()) continue;
    const bool may = may_postpone(move);
    if (first.exists() && (move.end > first.end || (move.end == first.end && may >= postponable))) {
      continue;
    }
    first = move;
    postponable = may;
  }
  return first;
}

void Moves::choices(StateView state, const Move& first, std::vector<Move>& out) const {
  out.clear();
  for (const std::size_t chain : chains_.of_rank(chains_[first.chain].rank)) {
    const Move move = next(state, chain);
    if (move.exists() && (move.begin < first.end || chain == first.chain)) out.push_back(move);
  }
}

bool Moves::may_postpone(const Move& first) const noexcept {
  const Chain& chain = chains_[first.chain];
  return chain.op == Op::kForward && chains_.stages_of(chain.rank).size() > 1;
}

void Moves::place(State& state, const Move& move) const {
  const Chain& own = chains_[move.chain];
  ++state[move.chain];
  state[free_ + own.rank] = move.end;
  if (const Kept& kept = kept_[move.chain]; kept.places > 0) {
    const auto first = state.begin() + static_cast<std::ptrdiff_t>(kept.first);
    std::shift_right(first, first + static_cast<std::ptrdiff_t>(kept.places), 1);
    *first = move.end + kept.delay;
  }
  if (barred_ == words_) return;
  for (const std::size_t chain : chains_.of_rank(own.rank)) {
    state[barred_ + chain / kBits] &= ~(Ticks{1} << (chain % kBits));
  }
}

void Moves::postpone(State& state, const Move& first, const std::vector<Move>& choices) const {
  for (const Move& move : choices) {
    state[barred_ + move.chain / kBits] |= Ticks{1} << (move.chain % kBits);
  }
  Ticks& free = state[free_ + chains_[first.chain].rank];
  free = std::max(free, first.end);
}

void Moves::settle(State& state, const Move& first) const {
  // Whatever is not ready begins after something that is: at or after the end of `first`.
  for (std::size_t rank = 0; rank < chains_.ranks(); ++rank) {
    Ticks soonest = first.end;
    bool is_done = true;
    for (const std::size_t chain : chains_.of_rank(rank)) {
      is_done &= state[chain] == chains_.microbatches();
      const Move move = next(state, chain);
      if (move.exists()) soonest = std::min(soonest, move.begin);
    }
    Ticks& free = state[free_ + rank];
    if (!is_done) free = std::max(free, soonest);
  }
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    const Kept& kept = kept_[chain];
    if (kept.places == 0) continue;
    const Ticks free = free_at(state, chains_[kept.user].rank);
    for (std::size_t age = 0; age < kept.places; ++age) {
      Ticks& arrival = state[kept.first + age];
      const bool is_used = state[chain] - 1 - static_cast<Ticks>(age) < state[kept.user];
      if (is_used || arrival <= free) arrival = 0;
    }
  }
}

bool Moves::dominates(StateView better, StateView worse) const noexcept {
  for (std::size_t word = free_; word < barred_; ++word) {
    if (better[word] > worse[word]) return false;
  }
  for (std::size_t word = barred_; word < words_; ++word) {
    if ((better[word] & ~worse[word]) != 0) return false;
  }
  return true;
}

}  // namespace leat::pipeline
