#include "leat/pipeline/schedule/arrows.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "leat/pipeline/schedule.h"

namespace schedule_program {

using leat::pipeline::Action;
using leat::pipeline::Op;
using leat::pipeline::Span;

std::vector<Arrow> arrows_of(const leat::pipeline::Simulation& simulation) {
  // What makes and uses values, by stage, microbatch, and whether it is a forward.
  using Key = std::tuple<std::int32_t, std::int32_t, bool>;
  std::map<Key, std::pair<std::size_t, const Span*>> spans;
  for (std::size_t rank = 0; rank < simulation.spans.size(); ++rank) {
    for (const Span& span : simulation.spans[rank]) {
      const Action& action = span.action;
      if (computes(action.op) && action.op != Op::kBackwardWeight) {
        spans[{action.stage, action.microbatch, action.op == Op::kForward}] = {rank, &span};
      }
    }
  }
  std::vector<Arrow> arrows;
  for (const std::vector<Span>& row : simulation.spans) {
    for (const Span& span : row) {
      const Action& action = span.action;
      if (!sends(action.op)) continue;
      const bool is_forward = action.op == Op::kSendForward;
      const auto made = spans.find({action.stage, action.microbatch, is_forward});
      const auto used =
          spans.find({action.stage + (is_forward ? 1 : -1), action.microbatch, is_forward});
      if (made == spans.end() || used == spans.end()) continue;
      arrows.push_back({made->second.first, made->second.second,  //
                        used->second.first, used->second.second});
    }
  }
  return arrows;
}

}  // namespace schedule_program
