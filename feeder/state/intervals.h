// Sets of numbers, stored as intervals. Small if the numbers are mostly consecutive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace leat::feeder {

/// The numbers first .. end-1.
struct Interval {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A set of numbers. Adding consecutive numbers lengthens the last interval and does not allocate.
/// A value; not thread-safe.
class IntervalSet {
 public:
  /// The empty set.
  IntervalSet() { intervals_.reserve(16); }
  /// The union of intervals in any order. Sorts them first, so that many intervals are fast, too.
  explicit IntervalSet(std::vector<Interval> intervals) {
    std::ranges::sort(intervals, {}, &Interval::first);
    for (const Interval& one : intervals) add(one);
  }

  /// Returns the intervals of the set: sorted, none empty, none touching the next.
  [[nodiscard]] const std::vector<Interval>& intervals() const noexcept { return intervals_; }
  [[nodiscard]] bool empty() const noexcept { return intervals_.empty(); }
  /// Returns whether `number` is in the set.
  [[nodiscard]] bool contains(std::uint64_t number) const noexcept {
    const auto after = first_ending_after(number);
    return after != intervals_.end() && after->first <= number;
  }
  /// Returns how many numbers are in the set.
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (const Interval& one : intervals_) sum += one.end - one.first;
    return sum;
  }
  /// Adds a number, or all numbers of an interval.
  void add(std::uint64_t number) { add({.first = number, .end = number + 1}); }
  void add(Interval added) {
    if (added.first >= added.end) return;
    // Merges the new interval with those that it overlaps or touches.
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

  /// Returns the numbers that are in both sets.
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
  /// Returns the numbers that are in a and not in b.
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
