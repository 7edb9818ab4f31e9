// Shows text while a program runs (feeder/live.h): what writes it, and the thread that does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
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
  bool has_terminal();
  bool write(const std::string& text);
  void write_rest();

  const int fd_;
  const int own_;  // the same terminal or pipe, opened so that no write to it waits; or -1
  const bool is_terminal_;
  bool has_terminal_ = false;
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
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  [[nodiscard]] bool is_terminal() const noexcept { return screen_.is_terminal(); }

 private:
  void run();

  LiveScreen screen_;
  const Text text_;
  std::mutex mutex_;  // guards is_over_ alone
  std::condition_variable wake_;
  bool is_over_ = false;
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace leat::feeder
