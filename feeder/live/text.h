// What a live view (feeder/live.h) shows, as text: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/live/rows.h"

namespace leat::feeder {

/// What a block of lines is drawn on, and with.
struct LiveStyle {
  std::size_t width = 80;                // columns
  std::size_t height = ~std::size_t{0};  // lines
  bool unicode = true;                   // bars, lanes and marks; false: ASCII
  bool colour = false;                   // control sequences of ECMA-48
};

/// Returns what a terminal shows of all devices. No line is wider, and there are no more lines,
/// than the style says. Devices that do not fit are left out, but never the slowest; then the
/// sentence is, then the last lines. A figure that does not fit is left out whole.
[[nodiscard]] std::vector<std::string> live_block(std::span<const LiveRow> rows,
                                                  const LiveStyle& style);
/// Returns everything about one device in one plain line, without an end of line.
[[nodiscard]] std::string live_line(const LiveRow& row);

}  // namespace leat::feeder
