#include "leat/feeder/state.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace {

constexpr std::string_view kHead = "leat-state/1";

std::string checksum(std::string_view text) {  // FNV-1a, 32 bits
  std::uint32_t sum = 2166136261U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  std::array<char, 9> hex{};
  std::snprintf(hex.data(), hex.size(), "%08x", sum);
  return hex.data();
}

std::string to_text(const IntervalSet& set) {
  if (set.empty()) return "-";
  std::string text;
  for (const Interval& one : set.intervals()) {
    text += (text.empty() ? "" : ",") + std::to_string(one.first);
    if (one.end - one.first > 1) text += "-" + std::to_string(one.end - 1);
  }
  return text;
}

// Takes a state's text apart, word by word.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  // The next word's value; it must be called that.
  std::string_view value(std::string_view name) {
    if (!is_next(name)) fail("expected \"" + std::string(name) + "=\"");
    const std::string_view word = text_.substr(at_, text_.find(' ', at_) - at_);
    value_at_ = at_ + name.size() + 1;
    at_ = std::min(text_.size(), at_ + word.size() + 1);
    return word.substr(name.size() + 1);
  }
  [[nodiscard]] bool is_next(std::string_view name) const noexcept {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with(name) && rest.substr(name.size()).starts_with('=');
  }
  [[nodiscard]] bool at_end() const noexcept { return at_ >= text_.size(); }

  template <class T>
  T number(std::string_view digits) {
    T number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
      fail("\"" + std::string(digits) + "\" is no number", value_at_);
    }
    return number;
  }
  IntervalSet intervals(std::string_view name) {
    IntervalSet set;
    std::string_view rest = value(name);
    if (rest == "-") return set;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      const std::size_t dash = one.find('-');
      const auto first = number<std::uint64_t>(one.substr(0, dash));
      const auto last =
          dash == std::string_view::npos ? first : number<std::uint64_t>(one.substr(dash + 1));
      if (last < first || last + 1 == 0) {
        fail("\"" + std::string(one) + "\" is no interval", value_at_);
      }
      set.add({.first = first, .end = last + 1});
    }
    return set;
  }

  Carry carry() {
    const std::string_view text = value("carry");
    const std::size_t colon = text.find(':');
    const std::size_t plus = text.find('+');
    if (colon == std::string_view::npos || plus == std::string_view::npos || plus < colon) {
      fail("\"" + std::string(text) + "\" is no carry", value_at_);
    }
    return {.element = number<std::uint64_t>(text.substr(0, colon)),
            .position = number<std::uint64_t>(text.substr(colon + 1, plus - colon - 1)),
            .offset = number<std::uint64_t>(text.substr(plus + 1))};
  }

  [[noreturn]] void fail(const std::string& why) const { fail(why, at_); }
  [[noreturn]] static void fail(const std::string& why, std::size_t at) {
    throw Error("leat: this is no state of a prefetcher: at byte " + std::to_string(at) + ", " +
                why + "; give the whole text that state() returned");
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t value_at_ = 0;
};

void require_same_run(const State& a, const State& b) {
  const auto require = [](bool same, const char* what) {
    if (same) return;
    throw std::invalid_argument(
        std::string("leat: these states are not of one run: they differ in ") + what);
  };
  require(a.samples == b.samples, "the number of samples");
  require(a.elements == b.elements, "the number of packed elements");
  require(a.batch_size == b.batch_size, "batch_size");
  require(a.seed == b.seed, "seed");
  require(a.order == b.order, "order");
  require(a.last_batch == b.last_batch, "last_batch");
  require(a.world_size == b.world_size, "world_size");
}

// Beyond it a mistake is more likely than a run.
constexpr std::uint64_t kMostEpochsApart = 10'000;

const EpochReleases* find(const State& state, std::uint64_t epoch) {
  const auto found = std::ranges::find(state.epochs, epoch, &EpochReleases::epoch);
  return found == state.epochs.end() ? nullptr : &*found;
}

BatchPlan plan_of(const State& state) {
  return {state.elements > 0 ? state.elements : state.samples, state.batch_size, state.world_size,
          state.last_batch};
}

std::uint64_t end_of(const IntervalSet& set) {
  return set.empty() ? 0 : set.intervals().back().end;
}

// Where a state does not have an epoch, that part of the ranks has not begun it, or is through with
// it: the latter if it has a later one (in its own order of beginning).
bool is_through_with(const State& state, std::uint64_t epoch) {
  return !state.epochs.empty() && state.epochs.front().epoch > epoch;
}

// Of one epoch in all states.
EpochReleases merge_epoch(std::span<const State> states, std::uint64_t epoch) {
  const BatchPlan plan = plan_of(states[0]);
  const auto is_through = [&](const State& state) { return is_through_with(state, epoch); };
  // All have begun with the same; who is through has forgotten what it was.
  EpochReleases before{.epoch = epoch, .batches = {}, .positions = {}};
  for (const State& state : states) {
    const EpochReleases* const one = find(state, epoch);
    if (one != nullptr && !one->before.empty()) before.positions = one->before;
  }
  const EpochPlan shards(plan, &before);
  IntervalSet everywhere;
  everywhere.add({.first = 0, .end = plan.batches()});
  for (const State& state : states) {
    if (is_through(state)) continue;
    const EpochReleases* const one = find(state, epoch);
    everywhere = intersection(everywhere, one == nullptr ? IntervalSet{} : one->batches);
  }
  EpochReleases merged{.epoch = epoch, .batches = everywhere, .positions = {}};
  // The place farthest ahead that is before what any of them lacks; a state that has none is at the
  // beginning.
  bool all_carry = true;
  for (const State& state : states) {
    if (is_through(state)) continue;
    const EpochReleases* const one = find(state, epoch);
    all_carry = all_carry && one != nullptr && one->carry.has_value();
    if (all_carry && (!merged.carry || one->carry->element < merged.carry->element)) {
      merged.carry = one->carry;
    }
  }
  if (!all_carry) merged.carry.reset();
  std::vector<PositionRange> shard;
  for (const State& state : states) {
    const EpochReleases* const one = find(state, epoch);
    if (one == nullptr && !is_through(state)) continue;
    IntervalSet more;
    if (one == nullptr) {
      more.add({.first = 0, .end = plan.batches()});
    } else {
      more = one->batches;
      for (const Interval& range : one->positions.intervals()) merged.positions.add(range);
    }
    more = difference(more, everywhere);
    for (const Interval& range : more.intervals()) {
      for (std::uint64_t batch = range.first; batch < range.end; ++batch) {
        for (std::size_t rank = state.rank; rank < state.rank + state.ranks; ++rank) {
          shards.shard(batch, rank, shard);
          for (const PositionRange& range_of_it : shard) {
            merged.positions.add(
                {.first = range_of_it.first, .end = range_of_it.first + range_of_it.count});
          }
        }
      }
    }
  }
  // What all of them together have of a batch may be the whole of it.
  const IntervalSet some = merged.positions;
  for (const Interval& range : some.intervals()) {
    for (std::uint64_t batch = range.first / plan.batch_size(); batch < plan.batches(); ++batch) {
      const PositionRange whole = plan.positions(batch);
      if (whole.first >= range.end) break;
      if (whole.first < range.first || whole.first + whole.count > range.end) continue;
      IntervalSet these;
      these.add({.first = whole.first, .end = whole.first + whole.count});
      merged.positions = difference(merged.positions, these);
      merged.batches.add(batch);
    }
  }
  return merged;
}

}  // namespace

State State::parse(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (!text.starts_with(kHead)) {
    Words::fail("it begins with \"" + std::string(text.substr(0, kHead.size())) + "\", not \"" +
                    std::string(kHead) + "\"",
                0);
  }
  const std::size_t end = text.rfind(" sum=");
  if (end == std::string_view::npos) Words::fail("it is cut off: there is no sum", text.size());
  const std::string_view sum = text.substr(end + 5);
  text = text.substr(0, end);
  if (sum != checksum(text)) {
    Words::fail("the sum is " + std::string(sum) + ", but that of the text is " + checksum(text),
                end);
  }

  Words words(text.substr(std::min(text.size(), kHead.size() + 1)));
  State state;
  state.samples = words.number<std::uint64_t>(words.value("samples"));
  if (words.is_next("elements")) {
    state.elements = words.number<std::uint64_t>(words.value("elements"));
  }
  state.batch_size = words.number<std::size_t>(words.value("batch_size"));
  state.seed = words.number<std::uint64_t>(words.value("seed"));
  const std::string_view order = words.value("order");
  if (order != to_string(Order::kSequential) && order != to_string(Order::kShuffled)) {
    words.fail("\"" + std::string(order) + "\" is no order");
  }
  state.order = order == to_string(Order::kSequential) ? Order::kSequential : Order::kShuffled;
  const std::string_view last = words.value("last_batch");
  constexpr std::array kLast = {LastBatch::kPartial, LastBatch::kDrop, LastBatch::kPad,
                                LastBatch::kWrap};
  const auto* const found =
      std::ranges::find_if(kLast, [&](LastBatch one) { return last == to_string(one); });
  if (found == kLast.end()) words.fail("\"" + std::string(last) + "\" is no last_batch");
  state.last_batch = *found;

  const std::string_view ranks = words.value("ranks");  // first-last/world
  const std::size_t dash = ranks.find('-');
  const std::size_t slash = ranks.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) {
    words.fail("\"" + std::string(ranks) + "\" are no ranks");
  }
  state.rank = words.number<std::size_t>(ranks.substr(0, dash));
  const auto last_rank = words.number<std::size_t>(ranks.substr(dash + 1, slash - dash - 1));
  state.world_size = words.number<std::size_t>(ranks.substr(slash + 1));
  if (last_rank < state.rank || last_rank >= state.world_size || state.batch_size == 0) {
    words.fail("ranks or batch_size make no sense");
  }
  state.ranks = last_rank - state.rank + 1;

  const BatchPlan plan = plan_of(state);
  // A last batch that wraps has positions beyond the samples.
  const std::uint64_t most = ~std::uint64_t{0};
  const std::uint64_t positions =
      plan.batches() > most / state.batch_size ? most : plan.batches() * state.batch_size;
  while (!words.at_end()) {
    EpochReleases one;
    one.epoch = words.number<std::uint64_t>(words.value("epoch"));
    one.batches = words.intervals("batches");
    one.positions = words.intervals("positions");
    if (words.is_next("before")) one.before = words.intervals("before");
    if (words.is_next("carry")) one.carry = words.carry();
    if (!state.epochs.empty() && one.epoch <= state.epochs.back().epoch) {
      words.fail("epoch " + std::to_string(one.epoch) + " follows " +
                 std::to_string(state.epochs.back().epoch));
    }
    if (end_of(one.batches) > plan.batches() || end_of(one.positions) > positions ||
        end_of(one.before) > positions) {
      words.fail("there is something that epoch " + std::to_string(one.epoch) + " does not have");
    }
    state.epochs.push_back(std::move(one));
  }
  return state;
}

std::string State::text() const {
  std::string text = std::string(kHead) + " samples=" + std::to_string(samples) +
                     (elements == 0 ? "" : " elements=" + std::to_string(elements)) +
                     " batch_size=" + std::to_string(batch_size) + " seed=" + std::to_string(seed) +
                     " order=" + to_string(order) + " last_batch=" + to_string(last_batch) +
                     " ranks=" + std::to_string(rank) + "-" + std::to_string(rank + ranks - 1) +
                     "/" + std::to_string(world_size);
  for (const EpochReleases& one : epochs) {
    text += " epoch=" + std::to_string(one.epoch) + " batches=" + to_text(one.batches) +
            " positions=" + to_text(one.positions);
    if (!one.before.empty()) text += " before=" + to_text(one.before);
    if (one.carry.has_value()) {
      text += " carry=" + std::to_string(one.carry->element) + ":" +
              std::to_string(one.carry->position) + "+" + std::to_string(one.carry->offset);
    }
  }
  return text + " sum=" + checksum(text);
}

State State::merge(std::span<const State> states) {
  if (states.empty()) throw std::invalid_argument("leat: no state to merge");
  IntervalSet covered;
  std::size_t ranks = 0;
  for (const State& state : states) {
    require_same_run(states[0], state);
    covered.add({.first = state.rank, .end = state.rank + state.ranks});
    ranks += state.ranks;
  }
  State merged = states[0];
  if (covered.count() != merged.world_size || ranks != merged.world_size) {
    throw std::invalid_argument("leat: states of " + std::to_string(ranks) + " ranks, of which " +
                                std::to_string(covered.count()) +
                                " are different, are not those of a world of " +
                                std::to_string(merged.world_size));
  }
  merged.rank = 0;
  merged.ranks = merged.world_size;
  std::vector<std::uint64_t> epochs;
  for (const State& state : states) {
    if (state.epochs.empty()) epochs.push_back(0);  // it has begun nothing
    for (const EpochReleases& one : state.epochs) epochs.push_back(one.epoch);
  }
  // What some are through with, and others have not begun, is in no state.
  const auto [least, largest] = std::ranges::minmax(epochs);
  if (largest - least > kMostEpochsApart) {
    throw std::invalid_argument("leat: these states are " + std::to_string(largest - least) +
                                " epochs apart, which ranks of one run are not");
  }
  for (std::uint64_t epoch = least; epoch < largest; ++epoch) {
    if (std::ranges::any_of(states,
                            [&](const State& one) { return is_through_with(one, epoch); })) {
      epochs.push_back(epoch);
    }
  }
  std::ranges::sort(epochs);
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  merged.epochs.clear();
  for (const std::uint64_t epoch : epochs) merged.epochs.push_back(merge_epoch(states, epoch));
  return merged;
}

std::vector<PositionRange> EpochPlan::left(std::uint64_t batch) const {
  const PositionRange all = plan_->positions(batch);
  IntervalSet whole;
  whole.add({.first = all.first, .end = all.first + all.count});
  std::vector<PositionRange> left;
  const IntervalSet rest = difference(whole, released_->positions);
  for (const Interval& one : rest.intervals()) {
    left.push_back({.first = one.first, .count = one.end - one.first});
  }
  return left;
}

std::uint64_t EpochPlan::count(std::uint64_t batch) const {
  if (released_ == nullptr || released_->positions.empty()) return plan_->positions(batch).count;
  std::uint64_t sum = 0;
  for (const PositionRange& range : left(batch)) sum += range.count;
  return sum;
}

void EpochPlan::shard(std::uint64_t batch, std::size_t rank,
                      std::vector<PositionRange>& out) const {
  out.clear();
  if (released_ == nullptr || released_->positions.empty()) {
    const PositionRange shard = plan_->shard(batch, rank);
    if (shard.count > 0) out.push_back(shard);
    return;
  }
  const PositionRange slice = balanced_slice(count(batch), rank, plan_->ranks());
  append_slice(left(batch), slice.first, slice.count, out);
}

}  // namespace leat::feeder
