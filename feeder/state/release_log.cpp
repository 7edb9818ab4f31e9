#include "leat/feeder/state/release_log.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "leat/feeder/plan/batch_id.h"
#include "leat/feeder/state/epoch_plan.h"

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
  const auto found = std::ranges::lower_bound(head_.epochs, epoch, {}, &EpochReleases::epoch);
  return found == head_.epochs.end() || found->epoch != epoch ? nullptr : &*found;
}

PassId ReleaseLog::begin(std::size_t rank, std::uint64_t generation, std::uint64_t epoch,
                         bool rest) {
  const std::scoped_lock lock(mutex_);
  std::vector<Pass>& mine = passes(rank);
  const auto same = std::ranges::find_if(
      mine, [&](const Pass& pass) { return pass.generation == generation && pass.epoch == epoch; });
  if (same != mine.end()) return current_[rank] = same->id;  // joins another rank's pass
  for (std::size_t i = 0; i < head_.epochs.size(); ++i) {
    if (head_.epochs[i].epoch <= epoch) unseen_[i] = false;
  }
  // Only the latest pass over an epoch counts: a loop that evaluates, always over epoch 0, leaves
  // no older passes.
  std::erase_if(mine, [&](const Pass& pass) { return pass.epoch == epoch && pass.open == 0; });
  Pass& pass = mine.emplace_back();
  pass.id = PassId{++last_id_};
  pass.generation = generation;
  pass.epoch = epoch;
  pass.rest = rest && resumed(epoch) != nullptr;
  if (pass.rest) pass.released = resumed(epoch)->batches;
  current_[rank] = pass.id;
  forget_what_is_over();
  return current_[rank];
}

ReleaseLog::View ReleaseLog::view(const Passes& passes) const {
  View view;
  view.sorted.resize(passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    for (const Pass& pass : passes[i]) view.sorted[i].push_back(&pass);
    if (!std::ranges::is_sorted(view.sorted[i], {}, &Pass::epoch)) {
      std::ranges::stable_sort(view.sorted[i], {}, &Pass::epoch);
    }
  }
  view.current.resize(current_.size());
  for (std::size_t rank = 0; rank < current_.size(); ++rank) {
    for (const Pass& pass : passes[list_of(rank)]) {
      if (pass.id == current_[rank]) view.current[rank] = &pass;
    }
  }
  return view;
}

std::span<const ReleaseLog::Pass* const> ReleaseLog::over(const std::vector<const Pass*>& sorted,
                                                          std::uint64_t epoch) noexcept {
  const auto first = std::ranges::lower_bound(sorted, epoch, {}, &Pass::epoch);
  return {first, std::ranges::upper_bound(first, sorted.end(), epoch, {}, &Pass::epoch)};
}

// Whether the rank has left `epoch` for good: it is in a later epoch, or it has had a pass over
// `epoch` and is in an earlier one.
bool ReleaseLog::has_left(const View& view, std::size_t rank, std::uint64_t epoch) const noexcept {
  const Pass* const now = view.current[rank];
  if (now == nullptr || now->epoch == epoch) return false;
  return now->epoch > epoch || !over(view.sorted[list_of(rank)], epoch).empty();
}

bool ReleaseLog::is_over(const View& view, const Pass& pass) const noexcept {
  if (pass.open > 0) return false;
  for (std::size_t rank = 0; rank < current_.size(); ++rank) {
    if (current_[rank] == pass.id || !has_left(view, rank, pass.epoch)) return false;
  }
  return true;
}

// Forgets only passes that are older than every pass under way. So an epoch that is over stays in
// the state, as done, while an older pass is under way.
void ReleaseLog::forget_what_is_over() {
  const View all = view(passes_);
  std::uint64_t oldest = ~std::uint64_t{0};  // pass under way
  for (const std::vector<Pass>& of_rank : passes_) {
    for (const Pass& pass : of_rank) {
      if (!is_over(all, pass)) oldest = std::min(oldest, static_cast<std::uint64_t>(pass.id));
    }
  }
  for (std::vector<Pass>& of_rank : passes_) {
    std::erase_if(of_rank,
                  [&](const Pass& pass) { return static_cast<std::uint64_t>(pass.id) < oldest; });
  }
}

void ReleaseLog::leased(std::size_t rank, PassId pass) noexcept {
  const std::scoped_lock lock(mutex_);
  if (Pass* const one = find(passes(rank), pass)) ++one->open;
}

// A resumed run's walk to a missing batch may begin at the batch before it. So a batch's carry is
// kept until the next batch is released.
void ReleaseLog::Pass::note_carry(const BatchId& batch) {
  constexpr std::size_t kMost = 64;  // gaps; without gaps, only the latest carry is kept
  carries.emplace_back(batch.index, batch.carry);
  std::erase_if(carries, [&](const auto& one) { return released.contains(one.first + 1); });
  if (carries.size() > kMost) carries.pop_back();
}

void ReleaseLog::Pass::count(const BatchId& batch, bool is_packed) {
  released.add(batch.index);
  if (is_packed && batch.elements > 0) note_carry(batch);
}

std::optional<Carry> ReleaseLog::Pass::carry() const {
  const std::vector<Interval>& intervals = released.intervals();
  if (intervals.empty() || intervals[0].first > 0) return std::nullopt;
  for (const auto& [batch, carry] : carries) {
    if (batch + 1 == intervals[0].end) return carry;
  }
  return std::nullopt;
}

void ReleaseLog::ended(std::size_t rank, PassId pass, const BatchId& batch, bool done) noexcept {
  const std::scoped_lock lock(mutex_);
  Pass* const one = find(passes(rank), pass);
  if (one == nullptr) return;
  --one->open;
  if (done) one->count(batch, is_packed());
}

// Returns what the local ranks have released of one epoch.
EpochReleases ReleaseLog::releases(const View& view, std::uint64_t epoch) const {
  const EpochReleases* const before = resumed(epoch);
  IntervalSet all;
  all.add({.first = 0, .end = ~std::uint64_t{0}});
  std::vector<IntervalSet> of_ranks;
  bool is_rest = false;
  for (std::size_t rank = 0; rank < passes_.size(); ++rank) {
    IntervalSet released;
    const std::span<const Pass* const> passes = over(view.sorted[rank], epoch);
    const bool has_pass = !passes.empty();
    if (has_pass) {
      is_rest = is_rest || std::ranges::any_of(passes, &Pass::rest);
      released = passes.back()->released;  // only the latest pass counts
    }
    if (!has_pass && has_left(view, rank, epoch)) {  // it skipped the epoch
      released.add({.first = 0, .end = plan_.batches()});
    } else if (!has_pass && before != nullptr) {
      released = before->batches;
    }
    all = intersection(all, released);
    of_ranks.push_back(std::move(released));
  }

  EpochReleases result{.epoch = epoch, .batches = all, .positions = {}};
  if (head_.elements > 0) result.carry = carry_of(view, epoch);
  const EpochPlan plan(plan_, is_rest ? before : nullptr);
  std::vector<Interval> positions;
  std::vector<PositionRange> shard;
  for (std::size_t i = 0; i < of_ranks.size() && !shared_; ++i) {
    const IntervalSet some = difference(of_ranks[i], all);
    for (const Interval& range : some.intervals()) {
      for (std::uint64_t batch = range.first; batch < range.end; ++batch) {
        plan.shard(batch, head_.rank + i, shard);
        for (const PositionRange& one : shard) {
          positions.push_back({.first = one.first, .end = one.first + one.count});
        }
      }
    }
  }
  if (is_rest && is_part()) result.before = before->positions;
  if (is_rest) {  // positions released before the resume, of batches that are not complete
    for (const Interval& range : before->positions.intervals()) {
      for (std::uint64_t at = range.first; at < range.end;) {
        const std::uint64_t batch = at / plan_.batch_size();
        const std::uint64_t end = std::min(range.end, (batch + 1) * plan_.batch_size());
        if (!all.contains(batch)) positions.push_back({.first = at, .end = end});
        at = end;
      }
    }
  }
  result.positions = IntervalSet(std::move(positions));
  return result;
}

// Returns the carry of the rank with the least progress.
std::optional<Carry> ReleaseLog::carry_of(const View& view, std::uint64_t epoch) const {
  const EpochReleases* const before = resumed(epoch);
  std::optional<Carry> least;
  for (std::size_t rank = 0; rank < passes_.size(); ++rank) {
    std::optional<Carry> here;
    const std::span<const Pass* const> passes = over(view.sorted[rank], epoch);
    const bool has_pass = !passes.empty();
    if (has_pass) {
      here = passes.back()->carry();
      if (!here.has_value() && passes.back()->rest) here = before->carry;
    }
    if (!has_pass && has_left(view, rank, epoch)) continue;
    if (!has_pass && before != nullptr) here = before->carry;
    if (!here.has_value()) return std::nullopt;
    if (!least.has_value() || here->element < least->element) least = here;
  }
  return least;
}

State ReleaseLog::state() const {
  const std::scoped_lock lock(mutex_);
  return state_of(passes_);
}

State ReleaseLog::state(std::span<const Receipt* const> receipts) const {
  for (const Receipt* const one : receipts) {
    if (one == nullptr || one->log_ == nullptr) {
      throw std::invalid_argument("leat: state() with an empty receipt");
    }
    if (one->log_.get() != this) {
      throw std::invalid_argument("leat: state() with a receipt of another prefetcher: " +
                                  name_of(one->batch()));
    }
  }
  const std::scoped_lock lock(mutex_);
  Passes passes = passes_;
  for (const Receipt* const one : receipts) {
    if (Pass* const pass = find(passes[list_of(one->rank_)], one->pass_)) {
      pass->count(one->batch(), is_packed());
    }
  }
  return state_of(passes);
}

// The mutex is held.
State ReleaseLog::state_of(const Passes& passes) const {
  State state = head_;
  state.epochs.clear();
  for (std::size_t i = 0; i < head_.epochs.size(); ++i) {
    if (!unseen_[i]) continue;
    EpochReleases& one = state.epochs.emplace_back(head_.epochs[i]);
    one.before = is_part() ? one.positions : IntervalSet{};
  }
  std::vector<std::uint64_t> epochs;
  for (const std::vector<Pass>& of_rank : passes) {
    for (const Pass& pass : of_rank) epochs.push_back(pass.epoch);
  }
  std::ranges::sort(epochs);
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  const View all = view(passes);
  for (const std::uint64_t epoch : epochs) state.epochs.push_back(releases(all, epoch));
  std::ranges::sort(state.epochs, {}, &EpochReleases::epoch);
  return state;
}

}  // namespace leat::feeder
