#include "leat/feeder/release_log.h"

#include <algorithm>
#include <utility>

namespace leat::feeder {

ReleaseLog::ReleaseLog(const BatchPlan& plan, State head, bool shared)
    : plan_(plan),
      head_(std::move(head)),
      shared_(shared),
      passes_(shared ? 1 : head_.ranks),
      current_(head_.ranks, PassId::kNone),
      unseen_(head_.epochs.size(), true) {
  for (std::vector<Pass>& of_rank : passes_) of_rank.reserve(8);
}

ReleaseLog::Pass* ReleaseLog::find(std::vector<Pass>& passes, PassId id) noexcept {
  const auto found = std::ranges::find(passes, id, &Pass::id);
  return found == passes.end() ? nullptr : &*found;
}

const EpochReleases* ReleaseLog::resumed(std::uint64_t epoch) const noexcept {
  const auto found = std::ranges::find(head_.epochs, epoch, &EpochReleases::epoch);
  return found == head_.epochs.end() ? nullptr : &*found;
}

PassId ReleaseLog::begin(std::size_t rank, std::uint64_t generation, std::uint64_t epoch,
                         bool rest) {
  const std::scoped_lock lock(mutex_);
  std::vector<Pass>& mine = passes(rank);
  const auto same = std::ranges::find_if(
      mine, [&](const Pass& pass) { return pass.generation == generation && pass.epoch == epoch; });
  if (same != mine.end()) return current_[rank] = same->id;  // another rank's, which it joins
  current_[rank] = PassId::kNone;
  std::erase_if(mine, [&](const Pass& pass) {
    return pass.leases == 0 && std::ranges::find(current_, pass.id) == current_.end();
  });
  for (std::size_t i = 0; i < head_.epochs.size(); ++i) {
    if (head_.epochs[i].epoch <= epoch) unseen_[i] = false;
  }
  Pass& pass = mine.emplace_back();
  pass.id = PassId{++last_id_};
  pass.generation = generation;
  pass.epoch = epoch;
  pass.rest = rest && resumed(epoch) != nullptr;
  if (pass.rest) pass.released = resumed(epoch)->batches;
  return current_[rank] = pass.id;
}

void ReleaseLog::leased(std::size_t rank, PassId pass) noexcept {
  const std::scoped_lock lock(mutex_);
  if (Pass* const one = find(passes(rank), pass)) ++one->leases;
}

void ReleaseLog::ended(std::size_t rank, PassId pass, std::uint64_t batch, bool done) noexcept {
  const std::scoped_lock lock(mutex_);
  Pass* const one = find(passes(rank), pass);
  if (one == nullptr) return;
  --one->leases;
  if (done) one->released.add(batch);
}

// Of one epoch, over all ranks here.
EpochReleases ReleaseLog::releases(std::uint64_t epoch) const {
  std::uint64_t first_id = ~std::uint64_t{0};  // of a pass over it
  for (const std::vector<Pass>& of_rank : passes_) {
    for (const Pass& pass : of_rank) {
      if (pass.epoch == epoch) first_id = std::min(first_id, static_cast<std::uint64_t>(pass.id));
    }
  }
  const EpochReleases* const before = resumed(epoch);
  IntervalSet all;
  all.add({.first = 0, .end = ~std::uint64_t{0}});
  std::vector<IntervalSet> of_ranks;
  bool is_rest = false;
  for (const std::vector<Pass>& of_rank : passes_) {
    IntervalSet released;
    bool has_pass = false;
    bool is_through = false;  // it has forgotten the epoch: nothing of it is under way there
    for (const Pass& pass : of_rank) {
      is_through = is_through || static_cast<std::uint64_t>(pass.id) > first_id;
      if (pass.epoch != epoch) continue;
      has_pass = true;
      is_rest = is_rest || pass.rest;
      released = pass.released;  // the latest counts
    }
    if (!has_pass && is_through) released.add({.first = 0, .end = plan_.batches()});
    if (!has_pass && !is_through && before != nullptr) released = before->batches;
    all = intersection(all, released);
    of_ranks.push_back(std::move(released));
  }

  EpochReleases result{.epoch = epoch, .batches = all, .positions = {}};
  const EpochPlan plan(plan_, is_rest ? before : nullptr);
  std::vector<PositionRange> shard;
  for (std::size_t i = 0; i < of_ranks.size() && !shared_; ++i) {
    const IntervalSet some = difference(of_ranks[i], all);
    for (const Interval& range : some.intervals()) {
      for (std::uint64_t batch = range.first; batch < range.end; ++batch) {
        plan.shard(batch, head_.rank + i, shard);
        for (const PositionRange& one : shard) {
          result.positions.add({.first = one.first, .end = one.first + one.count});
        }
      }
    }
  }
  if (is_rest) {  // what was released of a batch by then, as long as it is not complete
    for (const Interval& range : before->positions.intervals()) {
      for (std::uint64_t at = range.first; at < range.end;) {
        const std::uint64_t batch = at / plan_.batch_size();
        const std::uint64_t end = std::min(range.end, (batch + 1) * plan_.batch_size());
        if (!all.contains(batch)) result.positions.add({.first = at, .end = end});
        at = end;
      }
    }
  }
  return result;
}

State ReleaseLog::state() const {
  const std::scoped_lock lock(mutex_);
  State state = head_;
  state.epochs.clear();
  for (std::size_t i = 0; i < head_.epochs.size(); ++i) {
    if (unseen_[i]) state.epochs.push_back(head_.epochs[i]);
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> begun;  // first id, epoch
  for (const std::vector<Pass>& of_rank : passes_) {
    for (const Pass& pass : of_rank) {
      const auto found =
          std::ranges::find(begun, pass.epoch, [](const auto& p) { return p.second; });
      if (found == begun.end()) {
        begun.emplace_back(static_cast<std::uint64_t>(pass.id), pass.epoch);
      } else {
        found->first = std::min(found->first, static_cast<std::uint64_t>(pass.id));
      }
    }
  }
  std::ranges::sort(begun);
  std::vector<EpochReleases> under_way;
  for (const auto& [id, epoch] : begun) under_way.push_back(releases(epoch));
  state.epochs.insert(state.epochs.begin(), under_way.begin(), under_way.end());
  return state;
}

}  // namespace leat::feeder
