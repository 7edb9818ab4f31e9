// Where the time of a device goes, per step and in all, what holds it back, and what a change may
// give.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/parts.h"
#include "leat/overlap/trace/figures/steps.h"
#include "leat/overlap/trace/figures/timeline.h"
#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Copies of one direction and one kind of host memory.
struct Copies {
  Kind direction = Kind::kH2d;
  Memory memory = Memory::kUnknown;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  // Of those of 1 MiB or more:
  std::uint64_t large_bytes = 0;
  Time large_time = 0;  ///< the sum of their lengths

  /// Bytes per second of the large ones; std::nullopt: there is none.
  [[nodiscard]] std::optional<double> rate() const noexcept;
};

/// Time of a stream's ops, summed by kind.
struct StreamTime {
  std::string name;
  std::uint64_t ops = 0;
  std::array<Time, kKinds> of{};
};

/// Ops of one name.
struct NameTime {
  std::string name;
  std::uint64_t count = 0;
  Time time = 0;
};

/// What a step may take after a change: from `best`, which is below what can be reached, to
/// today's.
struct WhatIf {
  std::string change;        ///< "copies", "comm", "both", "pinned", "data", "all": keys in JSON
  std::string words;         ///< "copies hidden behind compute"
  std::optional<Time> best;  ///< summed over the steps; std::nullopt: no promise
};

/// Ops that look wrong, and are kept.
struct Odd {
  std::uint64_t overlap_in_stream = 0;
  std::uint64_t equal = 0;
  std::uint64_t before_launch = 0;
  std::uint64_t without_call = 0;  ///< their call is not in the trace
};

/// What a Leat loop's own measurement, feed.stats(), says of it: by mean lengths, not by unions.
struct LoopFigures {
  double t_x = 0;  ///< nanoseconds
  double t_c = 0;
  double most = 0;    ///< the longer of both, and at most a step
  double hidden = 0;  ///< (Tc + Tx - Tstep) / min(Tc, Tx), within 0 and 1
};

/// One device of one trace, or a Leat loop of one rank.
struct DeviceReport {
  std::int64_t number = 0;  ///< of a loop: the rank
  std::string name;
  std::uint64_t ops = 0;
  std::uint64_t graphs = 0;
  Figures whole;  ///< from the first op's begin to the last end
  Steps steps;
  std::vector<Figures> of_steps;  ///< by steps.all
  /// All measured steps as one window, and their number: the mean step is the quotient.
  Figures mean;
  std::uint64_t steps_in_mean = 1;
  std::optional<LoopFigures> loop;  ///< of a Leat loop that has steps
  std::vector<NameTime> calls;      ///< of Cause::kCalls in the mean's window, the longest first
  std::vector<Copies> copies;
  double link = 0;                  ///< bytes per second that the link can have; 0: not known
  std::vector<StreamTime> streams;  ///< the longest first
  std::vector<NameTime> names;      ///< of ops in the mean's window, the longest first, all
  std::vector<WhatIf> what_if;
  Odd odd;
  std::string verdict;
  std::vector<Timeline> timelines;

  /// Nanoseconds of a mean step that the longest of compute, comm, h2d and d2h takes.
  [[nodiscard]] double most() const noexcept {
    return loop ? loop->most
                : static_cast<double>(mean.most()) / static_cast<double>(steps_in_mean);
  }
  /// OE of the mean step.
  [[nodiscard]] double oe() const noexcept {
    return loop ? loop->most * static_cast<double>(steps_in_mean) / static_cast<double>(mean.length)
                : mean.oe();
  }
};

/// How to look at a trace.
struct AnalysisOptions {
  Rules rules;
  StepOptions steps;
  std::optional<std::int64_t> device;  ///< that one, or the loop of that rank, alone
  std::optional<double> link;          ///< bytes per second
};

/// One trace.
struct TraceReport {
  std::string file;
  std::string format;
  std::optional<std::int64_t> rank;
  std::string partial;
  Oddities oddities;
  std::vector<DeviceReport> devices;  ///< then Leat's loops
};

/// Throws Unreadable if the trace has no op of a device and no Leat loop: what to record then.
[[nodiscard]] TraceReport analyze(const Trace& trace, const AnalysisOptions& options);

/// Of several ranks: each alone, since their clocks differ.
struct Straggler {
  std::size_t trace = 0;
  std::size_t device = 0;
  Time others_wait = 0;  ///< mean, in a step: their Tstep - |comm| is less by that
};
/// Returns the rank with the largest Tstep - |comm|; std::nullopt if no other waits for it.
[[nodiscard]] std::optional<Straggler> straggler(const std::vector<TraceReport>& traces);

}  // namespace overlap::trace
