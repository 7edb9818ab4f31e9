#include "leat/feeder/live/view.h"

#include <chrono>
#include <csignal>
#include <utility>

namespace leat::feeder {
namespace {

// How often the view looks; on a terminal it shows each time, elsewhere once in so many.
constexpr std::chrono::milliseconds kFrame{100};
constexpr int kFramesPerLine = 10;

// For threads that are made while it lives: signals are for the program's own, and who has closed
// the other end of the descriptor is told of by EPIPE.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

LiveView::LiveView(const Live& live, LiveSource source)
    : screen_(live.fd), rows_(live, std::move(source)) {
  const WithoutSignals none;
  thread_ = std::thread([this] { run(); });
}

LiveView::~LiveView() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LiveView::run() {
  const int every = screen_.is_terminal() ? 1 : kFramesPerLine;
  std::unique_lock lock(mutex_);
  for (int frame = 1; !wake_.wait_for(lock, kFrame, [&] { return is_over_; }); ++frame) {
    lock.unlock();
    rows_.update();
    if (frame % every == 0) screen_.show(rows_.rows());
    lock.lock();
  }
  rows_.update();
  screen_.show(rows_.rows());
}

}  // namespace leat::feeder
