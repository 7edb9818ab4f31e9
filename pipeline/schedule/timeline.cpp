#include "leat/pipeline/schedule/timeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/gpu/trace_writer.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/schedule/arrows.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;
using Track = leat::gpu::TraceWriter::Track;

constexpr std::size_t kComputes = 1;
constexpr std::size_t kTransfers = 2;

class Timeline {
 public:
  explicit Timeline(const Simulation& simulation) : simulation_(simulation) {
    // A makespan of more than 292 years is shown in nanoseconds.
    if (simulation.makespan > std::numeric_limits<std::int64_t>::max() / unit_) unit_ = 1;
  }

  std::string json() {
    for (std::size_t rank = 0; rank < simulation_.spans.size(); ++rank) add_rank(rank);
    std::size_t id = 0;
    for (const Arrow& one : arrows_of(simulation_)) {
      const char* const name = one.made->action.op == Op::kForward ? "output" : "gradient";
      ++id;
      trace_.arrow('s', name, id, {one.from, kComputes}, middle(*one.made));
      trace_.arrow('f', name, id, {one.to, kComputes}, middle(*one.used));
    }
    return trace_.json();
  }

 private:
  leat::Duration at(std::int64_t tick) const { return leat::Duration(tick * unit_); }
  // Where spans meet, viewers disagree on whose an arrow is.
  leat::Duration middle(const Span& span) const {
    return at(span.begin) + (at(span.end) - at(span.begin)) / 2;
  }

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

  const Simulation& simulation_;
  std::int64_t unit_ = 1000;
  leat::gpu::TraceWriter trace_;
};

}  // namespace

std::string timeline_json(const Simulation& simulation) { return Timeline(simulation).json(); }

}  // namespace schedule_program
