// Unions of intervals, and how much of a window they cover.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// A union of half-open intervals. Const functions are thread-safe.
class Cover {
 public:
  /// Adds an interval that does not begin before the last one. One without length adds nothing.
  void add(const Span& span) {
    if (span.end <= span.begin) return;
    if (!spans_.empty() && span.begin <= spans_.back().end) {
      spans_.back().end = std::max(spans_.back().end, span.end);
      return;
    }
    before_.push_back(length());
    spans_.push_back(span);
  }
  /// Disjoint, ascending.
  [[nodiscard]] std::span<const Span> spans() const noexcept { return spans_; }
  [[nodiscard]] bool empty() const noexcept { return spans_.empty(); }
  [[nodiscard]] Time length() const noexcept {
    return spans_.empty() ? 0 : before_.back() + (spans_.back().end - spans_.back().begin);
  }
  /// Returns how much of the window is covered.
  [[nodiscard]] Time within(const Span& window) const noexcept {
    return window.end <= window.begin ? 0 : until(window.end) - until(window.begin);
  }
  [[nodiscard]] bool has(Time at) const noexcept {
    const std::size_t next = behind(at);
    return next > 0 && at < spans_[next - 1].end;
  }
  /// Calls inside(Span) and outside(Span) for the pieces of a window that are covered and that are
  /// not, ascending.
  template <class Inside, class Outside>
  void split(const Span& window, const Inside& inside, const Outside& outside) const {
    Time at = window.begin;
    std::size_t next = behind(at);
    if (next > 0 && at < spans_[next - 1].end) --next;
    for (; at < window.end && next < spans_.size() && spans_[next].begin < window.end; ++next) {
      const Span piece{std::max(spans_[next].begin, at), std::min(spans_[next].end, window.end)};
      if (at < piece.begin) outside(Span{at, piece.begin});
      inside(piece);
      at = piece.end;
    }
    if (at < window.end) outside(Span{at, window.end});
  }

 private:
  // The first interval that begins behind `at`.
  [[nodiscard]] std::size_t behind(Time at) const noexcept {
    return static_cast<std::size_t>(std::ranges::upper_bound(spans_, at, {}, &Span::begin) -
                                    spans_.begin());
  }
  [[nodiscard]] Time until(Time at) const noexcept {
    const std::size_t next = behind(at);
    return next == 0
               ? 0
               : before_[next - 1] + (std::min(at, spans_[next - 1].end) - spans_[next - 1].begin);
  }

  std::vector<Span> spans_;
  std::vector<Time> before_;  // by interval: the length of those before it
};

}  // namespace overlap::trace
