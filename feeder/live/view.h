// Shows text while a program runs (feeder/live.h): what writes it, and the thread that does.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "leat/feeder/live.h"
#include "leat/feeder/live/rows.h"
#include "leat/feeder/live/text.h"

namespace leat::feeder {

/// On a terminal, draws a block of lines over the one before; anywhere else, writes lines. Never
/// waits: what the descriptor does not take at once is left out. Not thread-safe.
class LiveScreen {
 public:
  /// `fd` stays the caller's. Throws std::invalid_argument if it is not open for writing.
  explicit LiveScreen(int fd);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }
  /// What there is to draw on now.
  [[nodiscard]] LiveStyle style() const;
  /// Shows `lines`, which fit the style. Nothing while an older screen is on the same terminal. If
  /// only a part can be written, the rest comes before what is shown next.
  void show(const std::vector<std::string>& lines);

 private:
  [[nodiscard]] bool has_terminal() const;
  bool write(const std::string& text);

  const int fd_;
  const bool is_terminal_;
  std::size_t width_ = 0;  // of the terminal, when it was drawn on
  std::size_t drawn_ = 0;  // lines of the block that is there
  std::string rest_;       // of what was written in part
};

/// Shows, on a plain thread, what a function returns: on a terminal ten times a second, elsewhere
/// once a second, and once more when it is destroyed. A plain thread, because the program may live
/// in virtual time, and a fiber that sleeps would hide a deadlock. All signals are blocked on it.
class LiveView {
 public:
  /// Returns the lines to show: for a terminal, a block that fits the style; elsewhere, for null,
  /// lines of any length. Called ten times a second, by the view's thread only.
  using Text = std::function<std::vector<std::string>(const LiveStyle* terminal)>;

  /// Throws std::invalid_argument as LiveScreen does.
  LiveView(int fd, Text text);
  /// Shows the devices of a prefetcher.
  LiveView(const Live& live, LiveSource source);

 private:
  void run(const std::stop_token& stop);

  LiveScreen screen_;
  const Text text_;
  const std::jthread thread_;  // the last member: it uses the others, and is the first to end
};

}  // namespace leat::feeder
