#include "leat/comm/trace.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "leat/gpu/trace_writer.h"

namespace leat::comm {

Trace::Trace(std::size_t events) { events_.reserve(events); }

void Trace::add_rank(int rank, std::vector<std::string> names, TimePoint now) {
  const std::lock_guard guard(mutex_);
  origin_ = std::min(origin_, now);
  const auto known = std::ranges::find(ranks_, rank, &Rank::rank);
  if (known != ranks_.end()) {
    known->names = std::move(names);
  } else {
    ranks_.push_back({rank, std::move(names)});
  }
}

void Trace::add(const Event& event) noexcept {
  const std::lock_guard guard(mutex_);
  if (events_.size() < events_.capacity()) events_.push_back(event);
}

std::string Trace::json() const {
  const std::lock_guard guard(mutex_);
  gpu::TraceWriter out;
  constexpr std::size_t kTrainer = 1;
  constexpr std::size_t kLink = 2;
  for (const Rank& one : ranks_) {
    const auto process = static_cast<std::size_t>(one.rank);
    out.name_process(process, "rank " + std::to_string(one.rank));
    out.name_track({process, kTrainer}, "trainer");
    out.name_track({process, kLink}, "link");
  }
  std::map<std::tuple<int, std::uint64_t, std::uint32_t>, std::size_t> arrows;
  for (const Event& one : events_) {
    const auto process = static_cast<std::size_t>(one.rank);
    const auto& names = std::ranges::find(ranks_, one.rank, &Rank::rank)->names;
    const std::string name = one.tensor < names.size() ? names[one.tensor] : "";
    const Duration begin = one.begin - origin_;
    const Duration end = one.end - origin_;
    const auto [arrow, is_new] =
        arrows.try_emplace({one.rank, one.step, one.tensor}, arrows.size());
    const gpu::TraceWriter::Track track{process, one.kind == Kind::kPiece ? kLink : kTrainer};
    const std::string step = R"("step":)" + std::to_string(one.step);
    switch (one.kind) {
      case Kind::kReady:
        out.span("ready " + name, track, begin, end, step);
        out.arrow('s', name, arrow->second, track, begin);
        break;
      case Kind::kPiece:
        out.span(name, track, begin, end, step + R"(,"piece":)" + std::to_string(one.piece));
        if (one.piece == 0 && !is_new) out.arrow('t', name, arrow->second, track, begin);
        break;
      case Kind::kAwait:
        out.span("await " + name, track, begin, end, step);
        if (!is_new) out.arrow('f', name, arrow->second, track, end);
        break;
    }
  }
  return out.json();
}

void Trace::save(const std::filesystem::path& file) const { gpu::save_trace(json(), file); }

}  // namespace leat::comm
