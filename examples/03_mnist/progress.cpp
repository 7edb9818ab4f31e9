#include "examples/03_mnist/progress.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "examples/03_mnist/output.h"

namespace mnist {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

// Whether stdout is a terminal that can clear a line. One without a name is not known to.
bool can_redraw() {
  const char* const name = std::getenv("TERM");
  const std::string_view terminal = name == nullptr ? "" : name;
  return isatty(STDOUT_FILENO) == 1 && !terminal.empty() && terminal != "dumb";
}

// Whether the cursor stands behind a live line. Read by a signal handler, on whichever thread.
std::atomic<bool> g_line_is_open = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// The shell's prompt then begins a line of its own. The signal's default action is back already.
void end_line_and_program(int signal) {
  if (g_line_is_open) static_cast<void>(!write(STDOUT_FILENO, "\n", 1));
  raise(signal);
}

double seconds(std::chrono::steady_clock::duration length) {
  return std::chrono::duration<double>(length).count();
}

}  // namespace

Progress::Progress(std::uint64_t epochs, std::uint64_t steps)
    : live_(can_redraw()), epochs_(epochs), steps_(steps) {
  struct sigaction was {};
  if (!live_ || sigaction(SIGINT, nullptr, &was) != 0 || was.sa_handler != SIG_DFL) return;
  struct sigaction now {};
  now.sa_handler = end_line_and_program;
  now.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  minds_interrupt_ = sigaction(SIGINT, &now, nullptr) == 0;
}

Progress::~Progress() {
  if (minds_interrupt_) std::signal(SIGINT, SIG_DFL);
}

void Progress::start_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  step_ = samples_ = 0;
  started_ = drawn_ = Clock::now();
  if (live_) draw();
}

void Progress::step(std::size_t samples) {
  ++step_;
  samples_ += samples;
  if (!live_ || Clock::now() - drawn_ < kRedraw) return;
  drawn_ = Clock::now();
  draw();
}

void Progress::draw() {
  g_line_is_open = true;
  const int filled = steps_ == 0 ? 0 : static_cast<int>(kBarWidth * step_ / steps_);
  const double elapsed = seconds(Clock::now() - started_);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < filled ? "█" : "░";
  std::printf("\r\x1b[Kepoch %llu/%llu  %s  step %llu/%llu  %.0f samples/s",
              static_cast<unsigned long long>(epoch_ + 1), static_cast<unsigned long long>(epochs_),
              bar.c_str(), static_cast<unsigned long long>(step_),
              static_cast<unsigned long long>(steps_),
              elapsed > 0 ? static_cast<double>(samples_) / elapsed : 0.0);
  flush_output();
}

void Progress::finish_epoch(const Metrics& metrics) {
  const double samples = static_cast<double>(metrics.samples);
  g_line_is_open = false;
  std::printf("%sepoch %llu/%llu  loss %.4f  training accuracy %.2f %%  %.1f s\n",
              live_ ? "\r\x1b[K" : "", static_cast<unsigned long long>(epoch_ + 1),
              static_cast<unsigned long long>(epochs_), metrics.loss / samples,
              100.0 * static_cast<double>(metrics.correct) / samples,
              seconds(Clock::now() - started_));
  flush_output();
}

}  // namespace mnist
