// Where a live view is written: a terminal, or lines.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "leat/feeder/live/one_per_terminal.h"
#include "leat/feeder/live/text.h"

namespace leat::feeder {

/// Draws blocks over each other on a terminal; writes lines to anything else. Not thread-safe.
class LiveScreen {
 public:
  /// `fd` stays the caller's. Throws std::invalid_argument where it is not open, or not for
  /// writing.
  explicit LiveScreen(int fd);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
  /// In place of what it showed before. Where the descriptor has no room, nothing; where it has
  /// room for a part, the rest comes before what is shown next. Nothing while another screen, that
  /// began before, is on the same terminal.
  void show(std::span<const LiveRow> rows);

 private:
  [[nodiscard]] std::string block(std::span<const LiveRow> rows);
  bool finish();
  bool write(const std::string& text);

  const int fd_;
  const int own_;  // the same terminal or pipe, opened so that no write to it waits; or -1
  const bool is_terminal_;
  OnePerTerminal turn_;
  LiveStyle style_;
  std::string rest_;       // of what was written in part
  std::size_t drawn_ = 0;  // lines of the block that is there
};

}  // namespace leat::feeder
