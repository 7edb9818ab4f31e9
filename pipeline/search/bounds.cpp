#include "leat/pipeline/search/bounds.h"

#include <algorithm>
#include <limits>

namespace leat::pipeline {

Bounds::Bounds(const Chains& chains, const Moves& moves)
    : chains_(chains), moves_(moves), heads_(chains.actions(), 0), tails_(chains.actions(), 0) {
  find_tails();
}

// From the last element back: an element gives its own tail to what it needs.
void Bounds::find_tails() {
  const Ticks count = chains_.microbatches();
  for (Ticks k = count; k-- > 0;) {
    for (std::size_t chain = chains_.size(); chain-- > 0;) {
      const Chain& own = chains_[chain];
      Ticks work = -own.length;
      for (const Implied& other : chains_.behind(chain)) {
        work += std::max<Ticks>(0, count - k - other.back) * chains_[other.chain].length;
      }
      Ticks& tail = tails_[at(chain, k)];
      tail = std::max(tail, work);
      const Ticks from_begin = own.length + tail;
      if (k > 0) tails_[at(chain, k - 1)] = std::max(tails_[at(chain, k - 1)], from_begin);
      for (const Precedence& need : own.needs) {
        if (k < need.back) continue;
        Ticks& before = tails_[at(need.chain, k - need.back)];
        before = std::max(before, from_begin + need.delay);
      }
    }
  }
}

// Finds the heads.
Ticks Bounds::longest_way(StateView state) {
  const Ticks count = chains_.microbatches();
  Ticks longest = 0;
  Ticks oldest = count;
  for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
    oldest = std::min(oldest, state[chain]);
  }
  for (Ticks k = oldest; k < count; ++k) {
    for (std::size_t chain = 0; chain < chains_.size(); ++chain) {
      if (k < state[chain]) continue;
      const Chain& own = chains_[chain];
      Ticks head = moves_.free_at(state, own.rank) - own.length;
      for (const Implied& other : chains_.before(chain)) {
        head += std::max<Ticks>(0, k + 1 - other.back - state[other.chain]) *
                chains_[other.chain].length;
      }
      if (k > state[chain]) head = std::max(head, heads_[at(chain, k - 1)] + own.length);
      for (const Precedence& need : own.needs) {
        const Ticks needed = k - need.back;
        if (needed < 0) continue;
        if (needed >= state[need.chain]) {
          head = std::max(head,
                          heads_[at(need.chain, needed)] + chains_[need.chain].length + need.delay);
        } else if (chains_[need.chain].rank != own.rank) {
          head = std::max(head, moves_.arrival(state, need.chain, needed));
        }
      }
      heads_[at(chain, k)] = head;
      longest = std::max(longest, head + own.length + tails_[at(chain, k)]);
    }
  }
  return longest;
}

Ticks Bounds::busiest_rank(StateView state, std::size_t rank) {
  const auto count = static_cast<std::size_t>(chains_.microbatches());
  fronts_.clear();
  for (const std::size_t chain : chains_.of_rank(rank)) {
    if (state[chain] == chains_.microbatches()) continue;
    const std::size_t element = at(chain, state[chain]);
    const Ticks length = chains_[chain].length;
    fronts_.push_back({.head = heads_[element],
                       .tail = tails_[element],
                       .left = length,
                       .length = length,
                       .element = element,
                       .end = (chain + 1) * count});
  }
  Ticks time = moves_.free_at(state, rank);
  Ticks bound = time;
  while (!fronts_.empty()) {
    Front* best = nullptr;
    Ticks change = std::numeric_limits<Ticks>::max();  // when another can begin
    for (Front& front : fronts_) {
      if (front.head > time) {
        change = std::min(change, front.head);
      } else if (best == nullptr || front.tail > best->tail) {
        best = &front;
      }
    }
    if (best == nullptr) {
      time = change;
      continue;
    }
    const Ticks step = std::min(best->left, change - time);
    time += step;
    best->left -= step;
    if (best->left > 0) continue;
    bound = std::max(bound, time + best->tail);
    if (++best->element == best->end) {
      *best = fronts_.back();
      fronts_.pop_back();
    } else {
      best->head = heads_[best->element];
      best->tail = tails_[best->element];
      best->left = best->length;
    }
  }
  return bound;
}

Ticks Bounds::of(StateView state, Ticks enough) {
  Ticks bound = longest_way(state);
  sum_ = 0;
  for (std::size_t rank = 0; rank < chains_.ranks() && bound <= enough; ++rank) {
    const Ticks own = busiest_rank(state, rank);
    sum_ += own;
    bound = std::max(bound, own);
  }
  return bound;
}

}  // namespace leat::pipeline
