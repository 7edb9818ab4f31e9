// A queue of pieces under a credit: of the leader of an exchange, and of pushes and pulls between a
// worker and its servers.
//
// Always true: a piece is queued from queue() to next(), and in flight from next() to finished().
// The first one starts if it fits into the credit, or if nothing is in flight; nothing overtakes
// it.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "leat/csp/clock.h"

namespace leat::comm {

/// Allocates nothing but in the constructor.
class CreditQueue {
 public:
  /// A piece. The first one has the smallest (since, order, unit, piece).
  struct Entry {
    TimePoint since;
    std::uint32_t order = 0;
    std::uint32_t piece = 0;
    std::uint32_t unit = 0;  ///< of the piece
    std::uint64_t bytes = 0;
  };

  /// For `credit` bytes, and at most `most` queued pieces.
  CreditQueue(std::uint64_t credit, std::size_t most) : credit_(credit) { queue_.reserve(most); }

  void queue(const Entry& entry) {
    queue_.push_back(entry);
    std::ranges::push_heap(queue_, later);
  }
  /// The next piece, if it may start now; it is in flight then.
  [[nodiscard]] std::optional<Entry> next() {
    if (queue_.empty()) return std::nullopt;
    const Entry first = queue_.front();
    if (in_flight_ > 0 && in_flight_ + first.bytes > credit_) return std::nullopt;
    std::ranges::pop_heap(queue_, later);
    queue_.pop_back();
    in_flight_ += first.bytes;
    return first;
  }
  void finished(std::uint64_t bytes) noexcept { in_flight_ -= bytes; }

 private:
  static bool later(const Entry& a, const Entry& b) noexcept {
    return std::tie(a.since, a.order, a.unit, a.piece) >
           std::tie(b.since, b.order, b.unit, b.piece);
  }

  const std::uint64_t credit_;
  std::vector<Entry> queue_;  // a heap; the next one first
  std::uint64_t in_flight_ = 0;
};

}  // namespace leat::comm
