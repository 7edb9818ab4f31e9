#include "tests/comm/exact/reference.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

namespace leat::reference {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// What is cut into pieces: a tensor, or a bucket of several.
struct Unit {
  std::vector<std::size_t> tensors = {};
  std::int64_t known_at = 0;               // when the leader knows that all ranks have it ready
  std::deque<std::int64_t> to_order = {};  // pieces, in bytes
  std::size_t unfinished = 0;              // pieces
  bool has_pieces = false;
  std::int64_t done_at = kNever;
};

struct InFlight {
  std::size_t unit = 0;
  std::int64_t bytes = 0;
  std::int64_t time = 0;
  std::int64_t end = 0;
};

// The sum of the backwards of layers L to i of a rank.
std::int64_t backward_until(const Step& step, std::size_t rank, std::size_t i) {
  const auto& times = step.backward[rank];
  return std::accumulate(times.begin() + static_cast<std::ptrdiff_t>(i), times.end(),
                         std::int64_t{0});
}

std::vector<Unit> units_of(const Step& step) {
  std::vector<Unit> units;
  if (step.policy != comm::Policy::kBucketed) {
    for (std::size_t i = 0; i < step.layers(); ++i) units.push_back({.tensors = {i}});
    return units;
  }
  bool is_open = false;
  std::int64_t size = 0;
  for (std::size_t i = step.layers(); i-- > 0;) {
    if (!is_open) units.emplace_back();
    units.back().tensors.push_back(i);
    size = (is_open ? size : 0) + step.bytes[i];
    is_open = size < step.buckets[std::min(units.size(), step.buckets.size()) - 1];
  }
  return units;
}

std::vector<std::int64_t> pieces_of(const Step& step, const Unit& unit) {
  std::int64_t size = 0;
  for (const std::size_t i : unit.tensors) size += step.bytes[i];
  if (step.policy == comm::Policy::kBucketed) {
    return size > 0 ? std::vector{size} : std::vector<std::int64_t>();
  }
  const std::int64_t element = step.element();
  const std::int64_t whole = std::max<std::int64_t>(step.partition / element, 1) * element;
  std::vector<std::int64_t> pieces;
  for (; size > 0; size -= pieces.back()) pieces.push_back(std::min(size, whole));
  return pieces;
}

// Rank 0's choice and the link, one event after the other.
class Loop {
 public:
  explicit Loop(const Step& step) : step_(step), units_(units_of(step)) {
    for (Unit& unit : units_) {
      for (const std::size_t i : unit.tensors) {
        for (std::size_t r = 0; r < step.forward.size(); ++r) {
          const std::int64_t told = backward_until(step, r, i) + (r == 0 ? 0 : step.delta);
          unit.known_at = std::max(unit.known_at, told);
        }
      }
      const std::vector<std::int64_t> pieces = pieces_of(step, unit);
      unit.to_order.assign(pieces.begin(), pieces.end());
      unit.unfinished = pieces.size();
      unit.has_pieces = !pieces.empty();
    }
  }

  void run() {
    for (std::int64_t now = 0; now != kNever; now = next_event(now)) {
      do finish(now);
      while (order(now));
    }
  }

  // When each tensor is done on `rank`. Of one without pieces, the leader tells the others.
  [[nodiscard]] std::vector<std::int64_t> done_on(std::size_t rank) const {
    std::vector<std::int64_t> done(step_.layers());
    for (const Unit& unit : units_) {
      const bool is_told = !unit.has_pieces && rank > 0;
      for (const std::size_t i : unit.tensors) done[i] = unit.done_at + (is_told ? step_.delta : 0);
    }
    return done;
  }

  [[nodiscard]] std::int64_t most_in_flight() const { return most_in_flight_; }

 private:
  void finish(std::int64_t now) {
    while (!in_flight_.empty() && in_flight_.front().end <= now) {
      Unit& unit = units_[in_flight_.front().unit];
      bytes_in_flight_ -= in_flight_.front().bytes;
      if (--unit.unfinished == 0) unit.done_at = now;
      in_flight_.pop_front();
    }
    for (Unit& unit : units_) {  // those without pieces
      if (unit.unfinished == 0 && unit.done_at == kNever && unit.known_at <= now) {
        unit.done_at = now;
      }
    }
  }

  // The unit whose piece is next at this instant; null if there is none.
  Unit* next(std::int64_t now) {
    Unit* best = nullptr;
    for (Unit& unit : units_) {
      if (unit.to_order.empty()) continue;
      if (step_.policy == comm::Policy::kBucketed) return unit.known_at <= now ? &unit : nullptr;
      if (unit.known_at > now) continue;
      // Units stand by priority; at one instant, fifo takes the last.
      if (best == nullptr ||
          (step_.policy == comm::Policy::kFifo && unit.known_at <= best->known_at)) {
        best = &unit;
      }
    }
    return best;
  }

  // Orders what the credit allows; returns whether something was ordered.
  bool order(std::int64_t now) {
    bool has_ordered = false;
    for (Unit* unit = next(now); unit != nullptr; unit = next(now)) {
      const std::int64_t bytes = unit->to_order.front();
      if (!in_flight_.empty() && bytes_in_flight_ + bytes > step_.credit) break;
      unit->to_order.pop_front();
      bytes_in_flight_ += bytes;
      const std::int64_t called_at = now + (step_.ranks() == 1 ? 0 : step_.delta);
      const std::int64_t time = step_.time_of(bytes);
      link_free_at_ = std::max(link_free_at_, called_at) + time;
      in_flight_.push_back({.unit = static_cast<std::size_t>(unit - units_.data()),
                            .bytes = bytes,
                            .time = time,
                            .end = link_free_at_});
      std::int64_t sum = 0;
      for (const InFlight& piece : in_flight_) sum += piece.time;
      most_in_flight_ = std::max(most_in_flight_, sum);
      has_ordered = true;
    }
    return has_ordered;
  }

  [[nodiscard]] std::int64_t next_event(std::int64_t now) const {
    std::int64_t next = in_flight_.empty() ? kNever : in_flight_.front().end;
    for (const Unit& unit : units_) {
      if (unit.known_at > now) next = std::min(next, unit.known_at);
    }
    return next;
  }

  const Step& step_;
  std::vector<Unit> units_;
  std::deque<InFlight> in_flight_;
  std::int64_t bytes_in_flight_ = 0;
  std::int64_t link_free_at_ = 0;
  std::int64_t most_in_flight_ = 0;
};

}  // namespace

std::int64_t Step::element() const {
  const auto is_whole = [](std::int64_t size) { return size % 4 == 0; };
  return std::ranges::all_of(bytes, is_whole) ? 4 : 1;
}

std::int64_t Step::time_of(std::int64_t size) const {
  // 2(n-1)/n * size / bandwidth seconds, to the nearest nanosecond.
  __extension__ using Wide = __int128;
  const Wide over = Wide{2} * (ranks() - 1) * size * 1'000'000'000;
  const Wide under = Wide{ranks()} * bandwidth;
  return alpha + static_cast<std::int64_t>((2 * over + under) / (2 * under));
}

std::int64_t Step::ready_at(std::size_t i) const {
  std::int64_t latest = 0;
  for (std::size_t r = 0; r < backward.size(); ++r) {
    latest = std::max(latest, backward_until(*this, r, i));
  }
  return latest;
}

std::int64_t Step::link_time(std::size_t i) const {
  std::int64_t sum = 0;
  for (const std::int64_t size : pieces_of(*this, Unit{.tensors = {i}})) sum += time_of(size);
  return sum;
}

bench::StepInstance to_instance(const Step& step) {
  bench::StepInstance instance;
  for (std::size_t r = 0; r < step.forward.size(); ++r) {
    bench::RankLayers& layers = instance.ranks.emplace_back();
    for (const std::int64_t time : step.backward[r]) layers.backward.emplace_back(time);
    for (const std::int64_t time : step.forward[r]) layers.forward.emplace_back(time);
  }
  instance.bytes.assign(step.bytes.begin(), step.bytes.end());
  instance.alpha = Duration(step.alpha);
  instance.bandwidth = static_cast<double>(step.bandwidth);
  instance.delta = Duration(step.delta);
  instance.options.policy = step.policy;
  instance.options.synchronous = step.synchronous;
  instance.options.partition_bytes = static_cast<std::size_t>(step.partition);
  instance.options.credit_bytes = static_cast<std::size_t>(step.credit);
  if (!step.buckets.empty()) {
    instance.options.bucket_bytes.assign(step.buckets.begin(), step.buckets.end());
  }
  return instance;
}

Simulated simulate(const Step& step) {
  Loop loop(step);
  loop.run();
  Simulated result;
  for (std::size_t r = 0; r < step.forward.size(); ++r) {
    const std::vector<std::int64_t> done = loop.done_on(r);
    const std::int64_t all_done = *std::ranges::max_element(done);
    std::int64_t time = backward_until(step, r, 0);
    for (std::size_t i = 0; i < step.layers(); ++i) {
      time = std::max(time, step.synchronous ? all_done : done[i]) + step.forward[r][i];
    }
    result.times.push_back(time);
  }
  result.most_in_flight = loop.most_in_flight();
  return result;
}

std::int64_t one_after_the_other(const Step& step, std::size_t rank) {
  std::int64_t link = 0;
  std::int64_t latest = 0;
  for (std::size_t k = 0; k < step.layers(); ++k) {
    link += step.link_time(k);
    latest = std::max(latest, step.ready_at(k) + link);
  }
  const auto& forward = step.forward[rank];
  return std::accumulate(forward.begin(), forward.end(), latest);
}

std::int64_t bound(const Step& step, std::size_t rank) {
  const auto& forward = step.forward[rank];
  std::int64_t link = 0;
  std::int64_t latest = 0;
  for (std::size_t k = 0; k < step.layers(); ++k) {
    link += step.link_time(k);
    const auto from = forward.begin() + static_cast<std::ptrdiff_t>(k);
    latest = std::max(latest, std::accumulate(from, forward.end(), step.ready_at(k) + link));
  }
  return latest;
}

}  // namespace leat::reference
