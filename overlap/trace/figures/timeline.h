// What a device does over a step, no finer than a picture shows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "leat/overlap/trace/figures/parts.h"
#include "leat/overlap/trace/figures/steps.h"
#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Ops of a stream, or idle time, that are drawn as one.
struct Segment {
  Time begin = 0;
  Time end = 0;
  Time busy = 0;  ///< how much of it is covered
  Time longest = 0;
  std::uint64_t count = 1;
  std::uint32_t name = 0;  ///< in Timeline::names: that of the longest op
  std::uint8_t what = 0;   ///< a Kind, or kKinds + a Cause: that of most of the time
};

struct Lane {
  std::string name;  ///< the stream's; "idle"; "12 other streams"
  bool is_idle = false;
  std::vector<Segment> segments;  ///< disjoint, ascending
};

/// A step, or the whole span.
struct Timeline {
  std::string which;  ///< "median", "worst", "whole"
  std::string step;   ///< its name
  Span window;
  std::vector<std::string> names;
  std::vector<Lane> lanes;  ///< streams by their time, the longest first; then idle time
};

/// A picture is as many columns wide; two or more of them are one segment at least.
inline constexpr Time kColumns = 1500;

/// Returns segments that begin a column or more apart, or are two columns long or longer: ones that
/// are shorter are merged with their neighbours. They are ascending by begin; of what overlaps,
/// the first is kept and the rest counted.
[[nodiscard]] std::vector<Segment> merged(const std::vector<Segment>& segments, Time column);

/// Returns the timelines of the median and the longest measured step; without steps, that of the
/// whole span.
[[nodiscard]] std::vector<Timeline> timelines(const Trace& trace, const Device& device,
                                              const Idle& idle, const Steps& steps);

}  // namespace overlap::trace
