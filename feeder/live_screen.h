// Where a live view is written: a terminal, or lines.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "leat/feeder/live_text.h"

namespace leat::feeder {

/// Draws blocks over each other on a terminal; writes lines to anything else. Not thread-safe.
class LiveScreen {
 public:
  /// `fd` stays the caller's. Throws std::invalid_argument where it is not open.
  explicit LiveScreen(int fd);

  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
  /// In place of what it showed before. Nothing where the descriptor cannot take it at once.
  void show(std::span<const LiveRow> rows);

 private:
  [[nodiscard]] std::string block(std::span<const LiveRow> rows);

  const int fd_;
  const bool is_terminal_;
  LiveStyle style_;
  std::size_t drawn_ = 0;  // lines of the block that is there
};

}  // namespace leat::feeder
