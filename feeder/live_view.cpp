#include "leat/feeder/live_view.h"

#include <chrono>
#include <csignal>
#include <utility>

namespace leat::feeder {
namespace {

constexpr std::chrono::milliseconds kFrame{100};
constexpr std::chrono::milliseconds kLine{1000};
// Rates are of so long, at least: of less they would flicker.
constexpr std::chrono::milliseconds kWindow{1000};

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

LiveView::LiveView(const Live& live, std::vector<std::shared_ptr<SlotRing>> rings,
                   std::uint64_t batches_per_epoch)
    : live_(live),
      rings_(std::move(rings)),
      batches_per_epoch_(batches_per_epoch),
      screen_(live.fd),
      rates_(rings_.size()),
      rows_(rings_.size()) {
  for (std::size_t i = 0; i < rings_.size(); ++i) rows_[i].device = rings_[i]->device.name();
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
  const auto every = screen_.is_terminal() ? kFrame : kLine;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, every, [&] { return is_over_; })) {
    lock.unlock();
    show();
    lock.lock();
  }
  show();
}

void LiveView::show() {
  for (std::size_t i = 0; i < rows_.size(); ++i) update(i);
  screen_.show(rows_);
}

void LiveView::update(std::size_t i) {
  SlotRing& ring = *rings_[i];
  Rates& rates = rates_[i];
  LiveRow& row = rows_[i];
  const StatsCollector::Progress now = ring.stats.progress();
  const auto at = Clock::now();
  const bool is_whole = at - rates.since >= kWindow;
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  const Stats stats = ring.stats.window(rates.window, is_whole ? 1 : kNever);
  if (stats.sampled_steps > 0 || row.stats.sampled_steps == 0) row.stats = stats;
  const double seconds = std::chrono::duration<double>(at - rates.since).count();
  if (is_whole || row.steps_per_second <= 0) {
    row.steps_per_second = static_cast<double>(now.batches - rates.from.batches) / seconds;
    row.samples_per_second = static_cast<double>(now.samples - rates.from.samples) / seconds;
  }
  if (is_whole) {
    rates.from = now;
    rates.since = at;
  }
  row.epoch = now.epoch;
  row.total = live_.batches == 0 ? batches_per_epoch_ : live_.batches;
  row.done = live_.batches == 0 ? now.in_epoch : now.batches;
  row.filled = ring.filled.size();
  row.ready = ring.ready.size();
}

}  // namespace leat::feeder
