// What a live view (feeder/live.h) shows, as text: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
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
  double steps_per_second = 0;
  double samples_per_second = 0;
  Stats stats;  // of a short while
  std::size_t filled = 0;
  std::size_t ready = 0;
};

struct LiveStyle {
  std::size_t width = 80;  // columns
  bool unicode = true;
  bool colour = false;
};

/// The lines of a block, none of them wider than the style says (at least 40).
[[nodiscard]] std::vector<std::string> live_block(std::span<const LiveRow> rows,
                                                  const LiveStyle& style);
/// All in one plain line, without an end of line.
[[nodiscard]] std::string live_line(const LiveRow& row);

}  // namespace leat::feeder
