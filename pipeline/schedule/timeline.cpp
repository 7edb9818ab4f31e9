#include "leat/pipeline/schedule/timeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/gpu/trace_writer.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;
using Track = leat::gpu::TraceWriter::Track;

constexpr std::size_t kComputes = 1;
constexpr std::size_t kTransfers = 2;

// Names a forward, or what makes and uses gradients of the input.
struct Pass {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  bool is_forward = false;
  friend auto operator<=>(const Pass&, const Pass&) = default;
};
struct Place {
  std::size_t rank = 0;
  std::int64_t begin = 0;
};

// Writes spans first, and then arrows, which find their ends among the spans.
class Timeline {
 public:
  explicit Timeline(const Simulation& simulation) : simulation_(simulation) {
    // A makespan of more than 292 years is shown in nanoseconds.
    if (simulation.makespan > std::numeric_limits<std::int64_t>::max() / unit_) unit_ = 1;
  }

  std::string json() {
    for (std::size_t rank = 0; rank < simulation_.spans.size(); ++rank) add_rank(rank);
    for (const std::vector<Span>& spans : simulation_.spans) {
      for (const Span& span : spans) add_arrow(span.action);
    }
    return trace_.json();
  }

 private:
  leat::Duration at(std::int64_t tick) const { return leat::Duration(tick * unit_); }

  void add_rank(std::size_t rank) {
    trace_.name_process(rank, "rank " + std::to_string(rank));
    trace_.name_track({rank, kComputes}, "computes");
    std::vector<const Span*> sent;
    std::map<std::int64_t, std::int64_t> changes;  // of the number of activations
    for (const Span& span : simulation_.spans[rank]) {
      const Action& action = span.action;
      if (transfers(action.op)) sent.push_back(&span);
      if (!computes(action.op)) continue;
      add_span(span, {rank, kComputes});
      if (action.op == Op::kForward) ++changes[span.begin];
      if (action.op == Op::kBackward || action.op == Op::kBackwardWeight) --changes[span.end];
      if (action.op != Op::kBackwardWeight) {
        places_[{action.stage, action.microbatch, action.op == Op::kForward}] = {rank, span.begin};
      }
    }
    std::int64_t activations = 0;
    for (const auto& [tick, change] : changes) {
      activations += change;
      trace_.counter("activations", rank, at(tick), "\"live\":" + std::to_string(activations));
    }
    if (sent.empty()) return;
    trace_.name_track({rank, kTransfers}, "transfers");
    // Transfers of a cell begin together: the longer one is then around the shorter.
    std::ranges::stable_sort(sent, [](const Span* a, const Span* b) {
      return std::tuple(a->begin, a->column, -a->end) < std::tuple(b->begin, b->column, -b->end);
    });
    for (const Span* one : sent) add_span(*one, {rank, kTransfers});
  }

  void add_span(const Span& span, const Track& track) {
    trace_.span(to_string(span.action), track, at(span.begin), at(span.end),
                "\"stage\":" + std::to_string(span.action.stage) +
                    ",\"microbatch\":" + std::to_string(span.action.microbatch) +
                    ",\"cell\":" + std::to_string(span.column));
  }

  // Where a Send leads from and to. A value whose user has not run has no arrow.
  void add_arrow(const Action& action) {
    if (!sends(action.op)) return;
    const bool is_forward = action.op == Op::kSendForward;
    const auto from = places_.find({action.stage, action.microbatch, is_forward});
    const auto to = places_.find(
        {is_forward ? action.stage + 1 : action.stage - 1, action.microbatch, is_forward});
    if (from == places_.end() || to == places_.end()) return;
    const char* const name = is_forward ? "output" : "gradient";
    ++arrows_;
    for (const auto& [phase, end] : {std::pair('s', from), std::pair('f', to)}) {
      trace_.arrow(phase, name, arrows_, {end->second.rank, kComputes}, at(end->second.begin));
    }
  }

  const Simulation& simulation_;
  std::int64_t unit_ = 1000;
  leat::gpu::TraceWriter trace_;
  std::map<Pass, Place> places_;
  std::size_t arrows_ = 0;
};

}  // namespace

std::string timeline_json(const Simulation& simulation) { return Timeline(simulation).json(); }

}  // namespace schedule_program
