// A state from a text.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/state/state_text.h"

namespace leat::feeder {
namespace {

// The positions of successive shards of a batch of `size`, counted from its first.
Interval of_shards(std::uint64_t size, const Interval& shards, std::size_t ranks) {
  const PositionRange first = balanced_slice(size, shards.first, ranks);
  const PositionRange last = balanced_slice(size, shards.end - 1, ranks);
  return {.first = first.first, .end = last.first + last.count};
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
  T number(std::string_view digits) const {
    T number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
      fail("\"" + std::string(digits) + "\" is no number", value_at_);
    }
    return number;
  }
  IntervalSet intervals(std::string_view name) { return set(value(name)); }

  // Positions that the plan has: as a set, or as parts of batches, which@batches;which@batches.
  IntervalSet positions(std::string_view name, const BatchPlan& plan) {
    std::string_view rest = value(name);
    if (rest.find('@') == std::string_view::npos) return set(rest);
    std::vector<Interval> positions;
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find(';'));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      add_part(part, plan, positions);
    }
    return IntervalSet(std::move(positions));
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

  // An epoch, or one of first-last that are all alike; how many of these.
  std::pair<std::uint64_t, std::uint64_t> epochs() {
    const std::string_view text = value("epoch");
    const std::size_t dash = text.find('-');
    const auto first = number<std::uint64_t>(text.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : number<std::uint64_t>(text.substr(dash + 1));
    if (last < first) fail("\"" + std::string(text) + "\" are no epochs", value_at_);
    if (last > kLastEpoch) fail("there is no epoch " + std::to_string(last), value_at_);
    return {first, last - first + 1};
  }
  // For `more` epochs that stand for so many intervals each.
  void repeat(std::uint64_t more, std::uint64_t intervals) {
    if (more > untold_ / intervals) {
      fail("these epochs are more than memory holds", value_at_);
    }
    untold_ -= more * intervals;
  }

  [[noreturn]] void fail(const std::string& why) const { fail(why, at_); }
  [[noreturn]] static void fail(const std::string& why, std::size_t at) {
    throw Error("leat: this is no state of a prefetcher: at byte " + std::to_string(at) + ", " +
                why + "; give the whole text that state() returned");
  }

 private:
  // Intervals and bits.
  [[nodiscard]] IntervalSet set(std::string_view rest) const {
    if (rest == "-") return {};
    std::vector<Interval> set;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (const std::size_t plus = one.find('+'); plus != std::string_view::npos) {
        add_bits(one, plus, set);
        continue;
      }
      const std::size_t dash = one.find('-');
      const auto first = number<std::uint64_t>(one.substr(0, dash));
      const auto last =
          dash == std::string_view::npos ? first : number<std::uint64_t>(one.substr(dash + 1));
      if (last < first || last + 1 == 0) {
        fail("\"" + std::string(one) + "\" is no interval", value_at_);
      }
      set.push_back({.first = first, .end = last + 1});
    }
    return IntervalSet(std::move(set));
  }

  // which@batches, which/shards@batches
  void add_part(std::string_view text, const BatchPlan& plan, std::vector<Interval>& out) {
    const auto refuse = [&](const char* why) {
      fail("\"" + std::string(text) + "\" is no part of batches: " + why, value_at_);
    };
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) refuse("there is no @");
    const IntervalSet batches = set(text.substr(at + 1));
    const std::size_t slash = text.substr(0, at).find('/');
    const IntervalSet which = set(text.substr(0, std::min(at, slash)));
    if (which.empty() || batches.empty()) refuse("it is empty");
    if (batches.intervals().back().end > plan.batches()) refuse("an epoch has fewer batches");
    std::size_t shards = 0;
    if (slash < at) {
      shards = number<std::size_t>(text.substr(slash + 1, at - slash - 1));
      if (which.intervals().back().end > shards) refuse("no such shards");
    }
    if (batches.count() > untold_ / which.intervals().size()) {
      refuse("that is more than memory holds");
    }
    untold_ -= batches.count() * which.intervals().size();
    for (const Interval& range : batches.intervals()) {
      for (std::uint64_t batch = range.first; batch < range.end; ++batch) {
        const PositionRange all = plan.positions(batch);
        for (const Interval& one : which.intervals()) {
          const Interval part = shards > 0 ? of_shards(all.count, one, shards) : one;
          if (part.end > all.count) refuse("its batches have fewer positions");
          out.push_back({.first = all.first + part.first, .end = all.first + part.end});
        }
      }
    }
  }

  // first+unit:digits
  void add_bits(std::string_view text, std::size_t plus, std::vector<Interval>& set) const {
    const auto refuse = [&] { fail("\"" + std::string(text) + "\" are no bits", value_at_); };
    const std::size_t colon = text.find(':', plus);
    if (colon == std::string_view::npos) refuse();
    auto first = number<std::uint64_t>(text.substr(0, plus));
    const auto unit = number<std::uint64_t>(text.substr(plus + 1, colon - plus - 1));
    const std::string_view digits = text.substr(colon + 1);
    const std::uint64_t most = ~std::uint64_t{0};
    if (digits.empty() || unit == 0 || unit > (most - first) / digits.size() / 4) refuse();
    for (const char digit : digits) {
      const auto value = static_cast<unsigned>(kHexDigits.find(digit));
      if (value > 15) refuse();
      for (unsigned bit = 8; bit != 0; bit /= 2, first += unit) {
        if ((value & bit) != 0) set.push_back({.first = first, .end = first + unit});
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t value_at_ = 0;
  std::uint64_t untold_ = kMostUntold;  // that the rest of it may stand for
};

std::uint64_t end_of(const IntervalSet& set) {
  return set.empty() ? 0 : set.intervals().back().end;
}

}  // namespace

State State::parse(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (!text.starts_with(kStateHead)) {
    Words::fail("it begins with \"" + std::string(text.substr(0, kStateHead.size())) +
                    "\", not \"" + std::string(kStateHead) + "\"",
                0);
  }
  const std::size_t end = text.rfind(" sum=");
  if (end == std::string_view::npos) Words::fail("it is cut off: there is no sum", text.size());
  const std::string_view sum = text.substr(end + 5);
  text = text.substr(0, end);
  if (sum != state_checksum(text)) {
    Words::fail(
        "the sum is " + std::string(sum) + ", but that of the text is " + state_checksum(text),
        end);
  }

  Words words(text.substr(std::min(text.size(), kStateHead.size() + 1)));
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
  if (last_rank < state.rank || last_rank >= state.world_size || state.batch_size == 0 ||
      state.world_size > kMostRanks) {
    words.fail("ranks or batch_size make no sense");
  }
  state.ranks = last_rank - state.rank + 1;

  const BatchPlan plan = state.plan();
  const std::uint64_t positions = plan.end_of_positions();
  while (!words.at_end()) {
    const auto [epoch, count] = words.epochs();
    EpochReleases one{.epoch = epoch, .batches = {}, .positions = {}};
    one.batches = words.intervals("batches");
    one.positions = words.positions("positions", plan);
    if (words.is_next("before")) one.before = words.positions("before", plan);
    if (words.is_next("carry")) one.carry = words.carry();
    if (!state.epochs.empty() && one.epoch <= state.epochs.back().epoch) {
      words.fail("epoch " + std::to_string(one.epoch) + " follows " +
                 std::to_string(state.epochs.back().epoch));
    }
    if (one.carry.has_value() && (state.elements == 0 || one.carry->element > state.elements ||
                                  one.carry->position > state.samples)) {
      words.fail("epoch " + std::to_string(one.epoch) + " does not have that carry");
    }
    if (end_of(one.batches) > plan.batches() || end_of(one.positions) > positions ||
        end_of(one.before) > positions) {
      words.fail("there is something that epoch " + std::to_string(one.epoch) + " does not have");
    }
    words.repeat(count - 1, intervals_of(one));
    for (std::uint64_t i = 0; i < count; ++i) {
      state.epochs.push_back(one);
      ++one.epoch;
    }
  }
  return state;
}

}  // namespace leat::feeder
