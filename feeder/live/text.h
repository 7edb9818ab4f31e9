// What a live view (feeder/live.h) shows, as text: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/live/rows.h"

namespace leat::feeder {

/// What a view is drawn on, and with.
struct LiveStyle {
  bool is_terminal = true;
  std::size_t width = 80;                // columns
  std::size_t height = ~std::size_t{0};  // lines
  bool unicode = true;                   // bars, lanes and marks; false: ASCII
  bool colour = false;                   // control sequences of ECMA-48
};

/// Returns what is shown of all devices, in lines without ends. Where no terminal is, that is a
/// plain line for each device. On a terminal it is a block that fits the style, and nothing in less
/// than 40 columns. A figure that does not fit is left out whole. If there are too many lines, the
/// last devices are left out, but not the first; then the last lines.
[[nodiscard]] std::vector<std::string> live_text(std::span<const LiveRow> rows,
                                                 const LiveStyle& style);

}  // namespace leat::feeder
