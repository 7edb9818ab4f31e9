#include "leat/pipeline/kinds/onnx_table.h"

#include <algorithm>
#include <utility>

namespace leat::pipeline::orders {
namespace {

// Finds slots for one task after the other. A slot is free for a task if its stage does nothing in
// it, and fewer than S microbatches are under way.
class Greedy {
 public:
  Greedy(std::size_t microbatches, std::size_t stages)
      : stages_(stages),
        table_{.slots = 2 * stages + 2 * (microbatches - 1),
               .forward = empty(microbatches),
               .backward = empty(microbatches)},
        taken_(stages, std::vector<bool>(table_.slots)),
        under_way_(table_.slots) {
    for (std::size_t m = 0; m < microbatches; ++m) place(m);
  }
  [[nodiscard]] OnnxTable&& table() && { return std::move(table_); }

 private:
  [[nodiscard]] std::vector<std::vector<std::size_t>> empty(std::size_t microbatches) const {
    return {stages_, std::vector<std::size_t>(microbatches)};
  }

  void place(std::size_t m) {
    std::size_t after = 0;  // the first slot behind the microbatch's task before
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::size_t turn = m == 0 ? 0 : table_.forward[s][m - 1];
      table_.forward[s][m] = take(s, std::max(after, turn));
      after = table_.forward[s][m] + 1;
    }
    for (std::size_t s = stages_; s-- > 0;) {
      table_.backward[s][m] = take(s, after);
      after = table_.backward[s][m] + 1;
    }
    for (std::size_t t = table_.forward[0][m]; t <= table_.backward[0][m]; ++t) ++under_way_[t];
  }

  // The first free slot from `slot` on.
  std::size_t take(std::size_t stage, std::size_t slot) {
    while (taken_[stage].at(slot) || under_way_[slot] == stages_) ++slot;
    taken_[stage][slot] = true;
    return slot;
  }

  const std::size_t stages_;
  OnnxTable table_;
  std::vector<std::vector<bool>> taken_;  // [stage][slot]
  std::vector<std::size_t> under_way_;    // [slot]: microbatches between their ends at stage 0
};

}  // namespace

OnnxTable onnx_table(std::int32_t microbatches, std::int32_t stages) {
  return Greedy(static_cast<std::size_t>(microbatches), static_cast<std::size_t>(stages)).table();
}

std::vector<Row> onnx_rows(const OnnxTable& table) {
  std::vector<Row> rows(table.forward.size(), Row(table.slots));
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto put = [&](const std::vector<std::size_t>& slots, Op op) {
      for (std::size_t m = 0; m < slots.size(); ++m) {
        rows[s][slots[m]] = {{.stage = static_cast<std::int32_t>(s),
                              .op = op,
                              .microbatch = static_cast<std::int32_t>(m)}};
      }
    };
    put(table.forward[s], Op::kForward);
    put(table.backward[s], Op::kBackward);
  }
  return rows;
}

}  // namespace leat::pipeline::orders
