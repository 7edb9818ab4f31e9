#include "leat/overlap/trace/figures/parts.h"

#include <algorithm>
#include <limits>
#include <map>

namespace overlap::trace {
namespace {

constexpr unsigned bit(Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kAny = (1U << kKinds) - 1;
constexpr unsigned kCopies = bit(Kind::kH2d) | bit(Kind::kD2h);
constexpr unsigned kMemory = bit(Kind::kD2d) | bit(Kind::kMemset);

// In the order of Part: one of `any` runs, and none of `none`.
struct Wanted {
  unsigned any;
  unsigned none = 0;
};
constexpr std::array<Wanted, kParts> kWanted = {{
    {bit(Kind::kCompute)},
    {bit(Kind::kComm)},
    {bit(Kind::kH2d)},
    {bit(Kind::kD2h)},
    {bit(Kind::kD2d)},
    {bit(Kind::kMemset)},
    {bit(Kind::kComm), bit(Kind::kCompute)},
    {bit(Kind::kH2d), bit(Kind::kCompute)},
    {bit(Kind::kD2h), bit(Kind::kCompute)},
    {kCopies, bit(Kind::kCompute)},
    {kCopies | bit(Kind::kComm), bit(Kind::kCompute)},
    {bit(Kind::kComm), bit(Kind::kCompute)},
    {kCopies, bit(Kind::kCompute) | bit(Kind::kComm)},
    {kMemory, bit(Kind::kCompute) | bit(Kind::kComm) | kCopies},
    {bit(Kind::kOther), kAny & ~bit(Kind::kOther)},
    {kAny},
}};

}  // namespace

const char* key_of(Cause cause) noexcept {
  constexpr std::array<const char*, kCauses> kKeys = {
      "data_ns",      "sync_ns",        "calls_ns",   "host_ns",
      "launching_ns", "not_started_ns", "unknown_ns", "tail_ns"};
  return kKeys[static_cast<std::size_t>(cause)];
}

const char* name_of(Cause cause) noexcept {
  constexpr std::array<const char*, kCauses> kNames = {
      "data loading", "sync", "CUDA calls", "host", "launching", "not started", "unknown", "tail"};
  return kNames[static_cast<std::size_t>(cause)];
}

Busy busy(const std::vector<Op>& ops) {
  Busy found;
  std::vector<std::pair<Time, Kind>> ends;
  ends.reserve(ops.size());
  for (const Op& op : ops) {
    if (op.end > op.begin) ends.emplace_back(op.end, op.kind);
  }
  std::ranges::sort(ends);
  std::array<std::uint64_t, kKinds> running{};
  unsigned mask = 0;
  Time at = 0;
  std::size_t next = 0;
  const auto up_to = [&](Time time) {
    for (std::size_t i = 0; mask != 0 && at < time && i < kParts; ++i) {
      if ((mask & kWanted[i].any) != 0 && (mask & kWanted[i].none) == 0)
        found.of[i].add({at, time});
    }
    at = time;
  };
  const auto end = [&] {
    const auto& [time, kind] = ends[next++];
    up_to(time);
    if (--running[static_cast<std::size_t>(kind)] == 0) mask &= ~bit(kind);
  };
  for (const Op& op : ops) {
    if (op.end <= op.begin) continue;
    while (next < ends.size() && ends[next].first <= op.begin) end();
    up_to(op.begin);
    ++running[static_cast<std::size_t>(op.kind)];
    mask |= bit(op.kind);
  }
  while (next < ends.size()) end();
  return found;
}

Host::Host(const Trace& trace, const Rules& rules) : threads_(trace.threads.size()) {
  all_ = {std::numeric_limits<Time>::max(), 0};
  const auto reach = [&](Time begin, Time end) {
    all_ = {std::min(all_.begin, begin), std::max(all_.end, end)};
  };
  std::vector<signed char> is_sync_call(trace.names.size(), -1);
  for (const Call& call : trace.calls) {
    reach(call.begin, call.end);
    Of& of = threads_[call.thread];
    signed char& known = is_sync_call[call.name];
    if (known < 0) known = is_sync(trace.names[call.name]) ? 1 : 0;
    if (known == 1) {
      of.sync.add({call.begin, call.end});
      continue;
    }
    const Time begin = of.calls.empty() ? call.begin : std::max(call.begin, of.calls.back().at.end);
    if (begin < call.end) of.calls.push_back({{begin, call.end}, call.name});
  }
  std::map<std::uint64_t, Cover> data;
  std::vector<signed char> is_data_range(trace.names.size(), -1);
  for (const Range& range : trace.ranges) {
    reach(range.begin, range.end);
    signed char& known = is_data_range[range.name];
    if (known < 0) known = is_data(trace.names[range.name], rules) ? 1 : 0;
    if (known == 1) data[trace.threads[range.thread].process].add({range.begin, range.end});
  }
  data_.assign(data.begin(), data.end());
}

const Cover& Host::data(std::uint64_t process) const {
  static const Cover never;
  for (const auto& [of, cover] : data_) {
    if (of == process) return cover;
  }
  return never;
}

Idle idle(const Trace& trace, const Host& host, const Device& device, const Cover& busy,
          const Span& window) {
  Idle found;
  const auto add = [&](Cause cause, const Span& piece) {
    found.of[static_cast<std::size_t>(cause)].add(piece);
  };
  // The call of the op of some length that begins at `at`; of several, the earliest.
  const auto call_at = [&](Time at) -> const Call* {
    const Call* first = nullptr;
    for (auto op = std::ranges::lower_bound(device.ops, at, {}, &Op::begin);
         op != device.ops.end() && op->begin == at; ++op) {
      if (op->end == op->begin || op->call == kNone) continue;
      const Call* const call = &trace.calls[op->call];
      if (first == nullptr || call->begin < first->begin) first = call;
    }
    return first;
  };
  const Time first = busy.empty() ? window.begin : busy.spans().front().begin;
  const auto before_call = [&](const Span& gap, const Call& call) {
    const Host::Of& thread = host.thread(call.thread);
    // Before the first op there was nothing to drain.
    const bool was_in_sync = gap.begin > first && thread.sync.has(gap.begin);
    const auto elsewhere = [&](const Span& piece) {
      add(was_in_sync ? Cause::kSync : Cause::kHost, piece);
    };
    const auto not_in_sync = [&](const Span& piece) {
      auto other = std::ranges::upper_bound(thread.calls, piece.begin, {},
                                            [](const Host::Piece& of) { return of.at.end; });
      Time at = piece.begin;
      for (; other != thread.calls.end() && other->at.begin < piece.end; ++other) {
        const Span in{std::max(other->at.begin, at), std::min(other->at.end, piece.end)};
        if (at < in.begin) elsewhere({at, in.begin});
        add(Cause::kCalls, in);
        found.calls.push_back({in, other->name});
        at = in.end;
      }
      if (at < piece.end) elsewhere({at, piece.end});
    };
    host.data(trace.threads[call.thread].process)
        .split(
            gap, [&](const Span& piece) { add(Cause::kData, piece); },
            [&](const Span& piece) {
              thread.sync.split(
                  piece, [&](const Span& in) { add(Cause::kSync, in); }, not_in_sync);
            });
  };
  const Time last = busy.empty() ? window.begin : busy.spans().back().end;
  busy.split(
      window, [](const Span& /*op*/) {},
      [&](const Span& gap) {
        if (gap.begin >= last) return add(Cause::kTail, gap);
        const Call* const call = call_at(gap.end);
        if (call == nullptr) return add(Cause::kUnknown, gap);
        const Time called = std::clamp(call->begin, gap.begin, gap.end);
        const Time returned = std::clamp(call->end, called, gap.end);
        if (gap.begin < called) before_call({gap.begin, called}, *call);
        add(Cause::kLaunching, {called, returned});
        add(Cause::kNotStarted, {returned, gap.end});
      });
  return found;
}

Kind Figures::longest() const noexcept {
  Kind longest = Kind::kCompute;
  Time most = 0;
  for (const auto& [part, kind] :
       {std::pair(Part::kCompute, Kind::kCompute), std::pair(Part::kComm, Kind::kComm),
        std::pair(Part::kH2d, Kind::kH2d), std::pair(Part::kD2h, Kind::kD2h)}) {
    if ((*this)[part] > most) {
      most = (*this)[part];
      longest = kind;
    }
  }
  return longest;
}

Time Figures::most() const noexcept {
  return std::max(
      {(*this)[Part::kCompute], (*this)[Part::kComm], (*this)[Part::kH2d], (*this)[Part::kD2h]});
}

double Figures::oe() const noexcept {
  return length == 0 ? 0 : static_cast<double>(most()) / static_cast<double>(length);
}

Figures figures(const Busy& busy, const Idle& idle, const Span& window) {
  Figures found{.length = window.end - window.begin};
  for (std::size_t i = 0; i < kParts; ++i) found.of[i] = busy.of[i].within(window);
  for (std::size_t i = 0; i < kCauses; ++i) found.idle[i] = idle.of[i].within(window);
  return found;
}

Figures figures(const Busy& busy, const Idle& idle, const Cover& windows) {
  Figures sum;
  for (const Span& window : windows.spans()) {
    const Figures one = figures(busy, idle, window);
    sum.length += one.length;
    for (std::size_t i = 0; i < kParts; ++i) sum.of[i] += one.of[i];
    for (std::size_t i = 0; i < kCauses; ++i) sum.idle[i] += one.idle[i];
  }
  return sum;
}

}  // namespace overlap::trace
