// A state as a text; back: state_parse.cpp.
#include "leat/feeder/state/state_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat::feeder {
namespace {

std::string to_text(const Interval& one) {
  std::string text = std::to_string(one.first);
  if (one.end - one.first > 1) text += "-" + std::to_string(one.end - 1);
  return text;
}

// From intervals[from] on, as bits: a unit is the largest of which they and their gaps are
// multiples.
struct Bits {
  std::size_t from = 0;
  std::uint64_t unit = 0;
  std::uint64_t units = 0;
};

std::string to_text(std::span<const Interval> intervals, const Bits& bits) {
  const std::uint64_t first = intervals[bits.from].first;
  std::string digits((bits.units + 3) / 4, '0');
  for (const Interval& one : intervals.subspan(bits.from)) {
    for (std::uint64_t i = (one.first - first) / bits.unit; i < (one.end - first) / bits.unit;
         ++i) {
      char& digit = digits[i / 4];
      digit = kHexDigits[kHexDigits.find(digit) | (8U >> i % 4)];
    }
  }
  return std::to_string(first) + "+" + std::to_string(bits.unit) + ":" + digits;
}

// Each interval by itself, or the last of them as bits: whichever is shortest.
std::string to_text(const IntervalSet& set) {
  if (set.empty()) return "-";
  const std::span<const Interval> intervals = set.intervals();
  std::vector<std::string> listed;
  std::size_t length = 0;
  for (const Interval& one : intervals) length += listed.emplace_back(to_text(one)).size() + 1;

  std::size_t shortest = length;
  std::optional<Bits> best;
  Bits bits;
  for (std::size_t from = intervals.size(); from-- > 0;) {
    const Interval& one = intervals[from];
    length -= listed[from].size() + 1;  // now that of those before
    bits.from = from;
    bits.unit = std::gcd(bits.unit, one.end - one.first);
    if (from + 1 < intervals.size())
      bits.unit = std::gcd(bits.unit, intervals[from + 1].first - one.end);
    bits.units = (intervals.back().end - one.first) / bits.unit;
    const std::size_t digits = static_cast<std::size_t>(
        std::min<std::uint64_t>(bits.units / 4 + (bits.units % 4 != 0 ? 1 : 0), shortest));
    const std::size_t with_bits =
        length + std::to_string(one.first).size() + std::to_string(bits.unit).size() + digits + 3;
    if (with_bits < shortest) {
      shortest = with_bits;
      best = bits;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < (best ? best->from : listed.size()); ++i) text += listed[i] + ",";
  if (best) return text + to_text(intervals, *best);
  text.pop_back();
  return text;
}

// Of some batches, the same part of each.
struct Part {
  std::vector<Interval> which;  // positions, counted from the batch's first
  std::uint64_t size = 0;       // of each of the batches
  IntervalSet batches;
};

// `positions` by batches, those alike together; nothing where these are more than `most` intervals.
std::vector<Part> parts_of(const IntervalSet& positions, const BatchPlan& plan,
                           std::uint64_t most) {
  const std::uint64_t batch_size = plan.batch_size();
  if ((positions.intervals().back().end - 1) / batch_size >= plan.batches()) return {};
  std::uint64_t pieces = 0;
  for (const Interval& one : positions.intervals()) {
    pieces += (one.end - 1) / batch_size - one.first / batch_size + 1;
    if (pieces > most) return {};
  }
  using Ends = std::pair<std::uint64_t, std::vector<std::uint64_t>>;
  std::map<Ends, Part> parts;
  auto last = parts.end();          // that of the batch before, which mostly is this one's
  std::vector<std::uint64_t> ends;  // of the batch at hand, begins and ends in turn
  const auto end_batch = [&](std::uint64_t batch) {
    const std::uint64_t size = plan.positions(batch).count;
    if (last == parts.end() || last->first.first != size || last->first.second != ends) {
      last = parts.try_emplace(Ends{size, ends}).first;
    }
    Part& part = last->second;
    if (part.batches.empty()) {
      part.size = size;
      part.which.reserve(ends.size() / 2);
      for (std::size_t i = 0; i < ends.size(); i += 2) {
        part.which.push_back({.first = ends[i], .end = ends[i + 1]});
      }
    }
    part.batches.add(batch);
    ends.clear();
  };
  std::uint64_t batch = 0;
  for (const Interval& one : positions.intervals()) {
    for (std::uint64_t at = one.first; at < one.end;) {
      if (at / batch_size != batch && !ends.empty()) end_batch(batch);
      batch = at / batch_size;
      const std::uint64_t first = batch * batch_size;
      const std::uint64_t end = std::min(one.end - first, batch_size);
      ends.insert(ends.end(), {at - first, end});
      at = first + end;
    }
  }
  if (!ends.empty()) end_batch(batch);
  std::vector<Part> sorted;
  sorted.reserve(parts.size());
  for (auto& [key, part] : parts) sorted.push_back(std::move(part));
  std::ranges::sort(sorted, {}, [](const Part& one) { return one.batches.intervals()[0].first; });
  return sorted;
}

// The shard that begins at a position of a batch of `size`; none where it is not the first of one.
std::optional<std::uint64_t> shard_at(std::uint64_t size, std::uint64_t first, std::size_t ranks) {
  const std::uint64_t rows = size / ranks;  // the first `longer` have one more
  const std::uint64_t longer = size % ranks;
  const std::uint64_t of_longer = longer * (rows + 1);
  const std::uint64_t shard = first < of_longer ? first / (rows + 1)
                              : rows > 0        ? longer + (first - of_longer) / rows
                                                : ranks;
  if (shard >= ranks || balanced_slice(size, shard, ranks).first != first) return std::nullopt;
  return shard;
}

// Which of so many shards of a batch they are, or as they are: whichever is shorter.
std::string to_text(const Part& part, std::size_t ranks) {
  std::string text = to_text(IntervalSet(part.which));
  std::vector<Interval> shards;
  for (const Interval& one : part.which) {
    const auto first = shard_at(part.size, one.first, ranks);
    const auto end = one.end < part.size
                         ? shard_at(part.size, one.end, ranks)
                         : std::optional<std::uint64_t>(std::min<std::uint64_t>(part.size, ranks));
    if (!first.has_value() || !end.has_value()) return text;
    shards.push_back({.first = *first, .end = *end});
  }
  std::string told = to_text(IntervalSet(std::move(shards))) + "/" + std::to_string(ranks);
  return told.size() < text.size() ? told : text;
}

// Takes what it leaves untold from `untold`.
std::string to_text(const IntervalSet& positions, const BatchPlan& plan, std::uint64_t& untold) {
  constexpr std::size_t kFew = 2;
  if (positions.intervals().size() <= kFew) return to_text(positions);
  std::string in_parts;
  std::uint64_t pieces = 0;
  for (const Part& part : parts_of(positions, plan, untold)) {
    in_parts += in_parts.empty() ? "" : ";";
    in_parts += to_text(part, plan.ranks()) + "@" + to_text(part.batches);
    pieces += part.batches.count() * part.which.size();
  }
  // As bits, they may take half a byte each.
  if (in_parts.empty() || in_parts.size() >= positions.intervals().size() / 2) {
    std::string text = to_text(positions);
    if (in_parts.empty() || text.size() <= in_parts.size()) return text;
  }
  untold -= pieces;
  return in_parts;
}

// Those of one epoch.
std::string to_text(const EpochReleases& one, const BatchPlan& plan, std::uint64_t& untold) {
  std::string text =
      " batches=" + to_text(one.batches) + " positions=" + to_text(one.positions, plan, untold);
  if (!one.before.empty()) text += " before=" + to_text(one.before, plan, untold);
  if (one.carry.has_value()) {
    text += " carry=" + std::to_string(one.carry->element) + ":" +
            std::to_string(one.carry->position) + "+" + std::to_string(one.carry->offset);
  }
  return text;
}

bool is_alike(const EpochReleases& a, const EpochReleases& b) {
  return a.batches == b.batches && a.positions == b.positions && a.before == b.before &&
         a.carry == b.carry;
}

}  // namespace

std::string state_checksum(std::string_view text) {
  std::uint32_t sum = 2166136261U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  std::array<char, 9> hex{};
  std::snprintf(hex.data(), hex.size(), "%08x", sum);
  return hex.data();
}

std::string State::text() const {
  std::string text = std::string(kStateHead) + " samples=" + std::to_string(samples) +
                     (elements == 0 ? "" : " elements=" + std::to_string(elements)) +
                     " batch_size=" + std::to_string(batch_size) + " seed=" + std::to_string(seed) +
                     " order=" + to_string(order) + " last_batch=" + to_string(last_batch) +
                     " ranks=" + std::to_string(rank) + "-" + std::to_string(rank + ranks - 1) +
                     "/" + std::to_string(world_size);
  const BatchPlan batch_plan = plan();
  std::uint64_t untold = kMostUntold;
  for (std::size_t i = 0; i < epochs.size();) {
    const std::string told = to_text(epochs[i], batch_plan, untold);
    const std::uint64_t each = intervals_of(epochs[i]);
    std::size_t end = i + 1;
    while (end < epochs.size() && untold >= each && is_alike(epochs[i], epochs[end]) &&
           epochs[end].epoch == epochs[end - 1].epoch + 1) {
      untold -= each;
      ++end;
    }
    text += " epoch=" + std::to_string(epochs[i].epoch) +
            (end - i > 1 ? "-" + std::to_string(epochs[end - 1].epoch) : "") + told;
    i = end;
  }
  return text + " sum=" + state_checksum(text);
}

}  // namespace leat::feeder
