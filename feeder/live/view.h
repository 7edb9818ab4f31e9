// Shows text while a program runs: what writes it, and the thread that does.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace leat::feeder {

/// What a view is drawn on, and with.
struct LiveStyle {
  bool is_terminal = true;
  std::size_t width = 80;                // columns
  std::size_t height = ~std::size_t{0};  // lines
  bool unicode = true;                   // bars, lanes and marks; false: ASCII
  bool colour = false;                   // control sequences of ECMA-48
};

/// How often a view looks for something to show, in a second.
constexpr int kLooksPerSecond = 10;

/// Returns the columns that a text takes on a terminal: one for each character, none for a colour.
[[nodiscard]] std::size_t columns(std::string_view text);

/// On a terminal, draws a block of lines over the one before; anywhere else, writes lines. Never
/// waits: while the descriptor takes nothing, nothing is shown. Not thread-safe.
class LiveScreen {
 public:
  /// `fd` stays the caller's. Throws std::invalid_argument if it is not open for writing.
  [[nodiscard]] explicit LiveScreen(int fd);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  /// What there is to draw on now.
  [[nodiscard]] LiveStyle style() const;
  /// Shows `lines`, which fit the style. Shows nothing while another screen has the terminal (the
  /// first that shows something gets it), while another job is in the terminal's foreground, or
  /// while earlier lines cannot be written. If the latest call was long before `now`, the process
  /// was stopped, and a shell has written to the terminal: a new block begins.
  void show(const std::vector<std::string>& lines,
            std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

 private:
  void write_rest();

  const int fd_;
  const bool is_terminal_;
  std::vector<std::size_t> drawn_;  // the block that is there: the columns of its lines
  std::string rest_;                // what is still to be written
  std::chrono::steady_clock::time_point shown_at_;
};

/// Shows, on a plain thread, what a function returns: on a terminal ten times a second, elsewhere
/// once a second, and once more when it is destroyed. A plain thread, because the program may live
/// in virtual time, and a fiber that sleeps would hide a deadlock. All signals are blocked on it.
class LiveView {
 public:
  /// Returns the lines to show: on a terminal, a block that fits the style; elsewhere, lines of any
  /// length. Called ten times a second, by the view's thread only.
  using Text = std::function<std::vector<std::string>(const LiveStyle& style)>;

  /// Throws std::invalid_argument as LiveScreen does, leat::Error if no thread can be started.
  [[nodiscard]] LiveView(int fd, Text text);
  ~LiveView() { end_.set_value(); }

 private:
  void run();

  LiveScreen screen_;
  const Text text_;
  std::promise<void> end_;
  const std::jthread thread_;  // the last member: it uses the others, and is the first to end
};

}  // namespace leat::feeder
