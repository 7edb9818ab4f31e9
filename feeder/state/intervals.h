// Sets of numbers that mostly follow each other, as the intervals they form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace leat::feeder {

/// [first, end).
struct Interval {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A set of numbers. Numbers that are added in order lengthen the last interval: nothing is
/// allocated. Not thread-safe.
class IntervalSet {
 public:
  IntervalSet() { intervals_.reserve(16); }
  /// Of any number of them, in any order: sorts, where adding one by one would shift.
  explicit IntervalSet(std::vector<Interval> intervals) {
    std::ranges::sort(intervals, {}, &Interval::first);
    for (const Interval& one : intervals) add(one);
  }

  /// Sorted, none empty, none touching the next.
  [[nodiscard]] const std::vector<Interval>& intervals() const noexcept { return intervals_; }
  [[nodiscard]] bool empty() const noexcept { return intervals_.empty(); }
  [[nodiscard]] bool contains(std::uint64_t number) const noexcept {
    const auto after = first_ending_after(number);
    return after != intervals_.end() && after->first <= number;
  }
  /// How many there are.
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (const Interval& one : intervals_) sum += one.end - one.first;
    return sum;
  }
  void add(std::uint64_t number) { add({.first = number, .end = number + 1}); }
  void add(Interval added) {
    if (added.first >= added.end) return;
    // Those that it overlaps or touches become one with it.
    const auto from =
        std::lower_bound(intervals_.begin(), intervals_.end(), added.first,
                         [](const Interval& one, std::uint64_t first) { return one.end < first; });
    auto to = from;
    for (; to != intervals_.end() && to->first <= added.end; ++to) {
      added = {.first = std::min(added.first, to->first), .end = std::max(added.end, to->end)};
    }
    if (from == to) {
      intervals_.insert(from, added);
    } else {
      *from = added;
      intervals_.erase(from + 1, to);
    }
  }
  void clear() noexcept { intervals_.clear(); }
  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

  /// What is in both.
  [[nodiscard]] friend IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
    IntervalSet both;
    for (const Interval& one : a.intervals_) {
      for (auto other = b.first_ending_after(one.first);
           other != b.intervals_.end() && other->first < one.end; ++other) {
        both.add(
            {.first = std::max(one.first, other->first), .end = std::min(one.end, other->end)});
      }
    }
    return both;
  }
  /// What is in a and not in b.
  [[nodiscard]] friend IntervalSet difference(const IntervalSet& a, const IntervalSet& b) {
    IntervalSet rest;
    for (const Interval& one : a.intervals_) {
      std::uint64_t next = one.first;
      for (auto other = b.first_ending_after(one.first);
           other != b.intervals_.end() && other->first < one.end; ++other) {
        rest.add({.first = next, .end = other->first});
        next = other->end;
      }
      rest.add({.first = next, .end = one.end});
    }
    return rest;
  }

 private:
  [[nodiscard]] std::vector<Interval>::const_iterator first_ending_after(
      std::uint64_t number) const noexcept {
    return std::lower_bound(intervals_.begin(), intervals_.end(), number,
                            [](const Interval& one, std::uint64_t n) { return one.end <= n; });
  }

  std::vector<Interval> intervals_;
};

}  // namespace leat::feeder
