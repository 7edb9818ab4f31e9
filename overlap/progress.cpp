#include "leat/overlap/progress.h"

#include <array>
#include <stdexcept>
#include <utility>

namespace overlap {
namespace {

constexpr int kStderr = 2;

struct PhaseText {
  const char* what;
  const char* unit;
};

constexpr std::array<PhaseText, 7> kPhases = {{{"the link alone", "times"},
                                               {"Tx alone: the copies of a batch", "times"},
                                               {"Tc alone: the compute of a step", "times"},
                                               {"the loop without feeding", "steps"},
                                               {"the serial loop: read, copy, compute", "steps"},
                                               {"the loop with a prefetcher", "steps"},
                                               {"the link, Tx and Tc alone, again", "times"}}};

}  // namespace

void Progress::set_heading(std::string heading) {
  const std::scoped_lock lock(mutex_);
  heading_ = std::move(heading);
}

void Progress::begin(Phase phase, std::uint64_t total) {
  {
    const std::scoped_lock lock(mutex_);
    phase_ = phase;
    done_ = 0;
    total_ = total;
    is_paused_ = false;
  }
  if (view_ != nullptr) return;
  try {
    view_ = std::make_unique<leat::feeder::LiveView>(
        kStderr, [this](const leat::feeder::LiveStyle& style) { return lines(style); });
  } catch (const std::invalid_argument&) {
    // The standard error is closed. Progress is then not shown.
  }
}

void Progress::advance(std::uint64_t done) {
  const std::scoped_lock lock(mutex_);
  done_ = done;
}

void Progress::pause() {
  {
    const std::scoped_lock lock(mutex_);
    is_paused_ = true;
  }
  view_.reset();
}

std::vector<std::string> Progress::lines(const leat::feeder::LiveStyle& style) {
  const std::scoped_lock lock(mutex_);
  if (is_paused_ || (!style.is_terminal && elsewhere_ == Elsewhere::kNothing)) return {};
  const auto index = static_cast<std::size_t>(phase_);
  const std::uint64_t percent = total_ == 0 ? 0 : 100 * done_ / total_;
  const std::string phase =
      "phase " + std::to_string(index + 1) + " of " + std::to_string(kPhases.size());
  const std::string counts = std::to_string(done_) + " of " + std::to_string(total_) + " " +
                             kPhases[index].unit + " (" + std::to_string(percent) + " %)";
  const std::string text = heading_ + phase + ", " + kPhases[index].what + ": " + counts;
  if (!style.is_terminal) return {"leat-overlap: " + text};
  if (style.height == 0) return {};
  // The longest text that fits: a figure that is cut reads as another one.
  const std::array<std::string, 4> texts = {text,
                                            phase + ", " + kPhases[index].what + ": " + counts,
                                            phase + ": " + counts, std::to_string(percent) + " %"};
  for (const std::string& one : texts) {
    if (one.size() <= style.width) return {one};
  }
  return {};
}

}  // namespace overlap
