// What a live view (feeder/live.h) shows, as text: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/stats.h"

namespace leat::feeder {

/// What is shown of one device.
struct LiveRow {
  std::string device;
  std::uint64_t epoch = 0;  // of the latest batch that was released
  std::uint64_t done = 0;   // batches released, of `total`
  std::uint64_t total = 0;
  // Nothing while no step is known.
  std::optional<double> steps_per_second;
  std::optional<double> samples_per_second;
  std::optional<double> done_per_second;  // how fast `done` grows: the time left follows from it
  Stats stats;                            // of a short while
  std::size_t filled = 0;                 // pinned slots, with batches or the end of an epoch
  std::size_t ready = 0;                  // device slots
};

/// What there is to draw on, and with.
struct LiveStyle {
  std::size_t width = 80;                // columns
  std::size_t height = ~std::size_t{0};  // lines
  bool unicode = true;                   // bars, lanes and marks; ASCII: without
  bool colour = false;                   // ECMA-48
};

/// The lines of a block, none of them wider, nor more of them, than the style says: where they do
/// not fit, devices are left out (never the slowest), then the sentence, headings, rates, lanes,
/// progress and stages; the times stay. Of less than 40 columns, or no line at all, it is one line
/// of the slowest device. A figure that does not fit is left out whole.
[[nodiscard]] std::vector<std::string> live_block(std::span<const LiveRow> rows,
                                                  const LiveStyle& style);
/// All in one plain line, without an end of line.
[[nodiscard]] std::string live_line(const LiveRow& row);

}  // namespace leat::feeder
