// What the live view of a prefetcher shows, as text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "leat/feeder/live/rows.h"
#include "leat/feeder/live/view.h"

namespace leat::feeder {

/// Returns what is shown of all devices, in lines without ends. Without a terminal: a plain line
/// for each device. On a terminal: a block that fits the style; in less than 40 columns, one line
/// about the first device. A figure that does not fit is left out whole. If there are too many
/// lines, devices are left out, but not the slowest; then the last lines.
[[nodiscard]] std::vector<std::string> live_text(std::span<const LiveRow> rows,
                                                 const LiveStyle& style);
/// Returns a view's text: what live_text() makes of the rows of `source` when it is called.
[[nodiscard]] LiveView::Text live_text(const Live& live, LiveSource source);

}  // namespace leat::feeder
