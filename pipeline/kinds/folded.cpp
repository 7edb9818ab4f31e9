// The kinds whose rank r has stages r, here the *outer* one, and 2 R - 1 - r, the *inner* one. A
// microbatch passes every rank on its way there and on its way back.
#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>

#include "leat/pipeline/kinds/orders.h"

namespace leat::pipeline::orders {
namespace {

enum Side : std::uint8_t { kOuter, kInner };

// A row in the making. Each stage takes the microbatches in order, so an action is named without.
class FoldedRow {
 public:
  // Of microbatches from `microbatches` on, nothing is written.
  FoldedRow(const ScheduleShape& shape, std::int32_t rank)
      : microbatches_(shape.microbatches), stages_{rank, 2 * shape.ranks - 1 - rank} {
    row_.reserve(std::size_t{6} * static_cast<std::size_t>(microbatches_));
  }

  void forward(Side side) { write(take(side, Op::kForward)); }
  void backward(Side side) { write(take(side, Op::kBackward)); }
  void backward_input(Side side) {
    Action action = take(side, Op::kBackward);
    action.op = Op::kBackwardInput;
    write(action);
    split_.push_back(action);
  }
  // The W of the oldest I without one; nothing if there is none.
  void oldest_weight() {
    if (split_.empty()) return;
    write_weight(0);
  }
  // The W of the oldest I of a stage; false if there is none.
  bool oldest_weight(Side side) {
    const auto of = [&](const Action& action) { return action.stage == stages_[side]; };
    const auto found = std::ranges::find_if(split_, of);
    if (found == split_.end()) return false;
    write_weight(found - split_.begin());
    return true;
  }
  // A forward of one stage and a backward of the other, which overlap.
  void pair(Side ahead, Side back) {
    Action first = take(ahead, Op::kForward);
    first.paired = true;
    row_.push_back({first, take(back, Op::kBackward)});
  }

  [[nodiscard]] std::int32_t forwards(Side side) const noexcept { return forwards_[side]; }
  [[nodiscard]] Row&& take_row() { return std::move(row_); }

 private:
  [[nodiscard]] Action take(Side side, Op op) {
    std::int32_t& next = op == Op::kForward ? forwards_[side] : backwards_[side];
    return {.stage = stages_[side], .op = op, .microbatch = next++};
  }
  void write(const Action& action) {
    if (action.microbatch < microbatches_) row_.emplace_back(1, action);
  }
  void write_weight(std::ptrdiff_t index) {
    Action action = split_[static_cast<std::size_t>(index)];
    split_.erase(split_.begin() + index);
    action.op = Op::kBackwardWeight;
    write(action);
  }

  const std::int32_t microbatches_;
  const std::array<std::int32_t, 2> stages_;
  std::array<std::int32_t, 2> forwards_{}, backwards_{};
  std::deque<Action> split_;  // I's whose W has not been written
  Row row_;
};

// Calls f so many times.
template <class F>
void times(std::int32_t count, F&& f) {
  for (std::int32_t i = 0; i < count; ++i) f(i);
}

}  // namespace

Row zbv(const ScheduleShape& shape, std::int32_t rank) {
  // The order is that of a number of microbatches that fills the pipeline; if there are fewer, the
  // rest is left out.
  const std::int32_t ranks = shape.ranks;
  const std::int32_t microbatches = std::max(2 * ranks - 1, shape.microbatches);
  FoldedRow row(shape, rank);
  const auto split_backward = [&](Side side) {
    row.backward_input(side);
    row.oldest_weight(side);
  };
  // Until the inner stage's first backward.
  times(2 * (ranks - rank) - 1, [&](int) { row.forward(kOuter); });
  times(rank, [&](int) {
    row.forward(kInner);
    row.forward(kOuter);
  });
  times(ranks - rank, [&](int) {
    row.forward(kInner);
    split_backward(kInner);
  });
  // The steady state.
  while (row.forwards(kInner) < microbatches) {
    if (row.forwards(kOuter) < microbatches) row.forward(kOuter);
    split_backward(kOuter);
    row.forward(kInner);
    split_backward(kInner);
  }
  // Inputs' gradients first: other ranks wait for them.
  times(rank, [&](int) {
    row.backward_input(kOuter);
    row.backward_input(kInner);
  });
  times(ranks - rank, [&](int) {
    row.backward_input(kOuter);
    row.oldest_weight(kOuter);
  });
  while (row.oldest_weight(kInner)) {
  }
  while (row.oldest_weight(kOuter)) {
  }
  return row.take_row();
}

Row dualpipe_v(const ScheduleShape& shape, std::int32_t rank) {
  const std::int32_t ranks = shape.ranks;
  const std::int32_t behind = ranks - 1 - rank;  // ranks that the microbatch turns round on
  FoldedRow row(shape, rank);
  // Once set, the backwards that follow are split: the W's fill what would be idle at the end.
  bool splits = false;
  const auto backward = [&](Side side) { splits ? row.backward_input(side) : row.backward(side); };

  times(2 * behind, [&](int) { row.forward(kOuter); });
  times(rank + 1, [&](int) {
    row.forward(kOuter);
    row.forward(kInner);
  });
  times(behind, [&](int) {
    row.backward_input(kInner);
    row.oldest_weight();
    row.forward(kInner);
  });
  times(shape.microbatches - 2 * ranks + rank + 1, [&](int i) {
    if (i == 0 && rank == ranks - 1) {  // there is nothing yet to overlap with
      row.forward(kOuter);
      row.backward(kInner);
    } else {
      row.pair(kOuter, kInner);
    }
    row.pair(kInner, kOuter);
  });
  times(behind, [&](int) {
    row.backward(kInner);
    row.pair(kInner, kOuter);
  });
  // The splitting starts in the middle; on odd ranks with the inner stage, on others with the
  // outer.
  times(rank + 1, [&](int i) {
    const bool middle = i == (rank + 1) / 2;
    if (middle && rank % 2 == 1) splits = true;
    backward(kInner);
    if (middle) splits = true;
    backward(kOuter);
  });
  times(behind, [&](int) {
    row.oldest_weight();
    backward(kOuter);
  });
  times(rank + 1, [&](int) { row.oldest_weight(); });
  return row.take_row();
}

}  // namespace leat::pipeline::orders
