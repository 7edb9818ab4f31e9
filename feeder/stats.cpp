#include "leat/feeder/stats.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace leat::feeder {
namespace {

// "12.3 us": three significant digits in the unit that fits.
std::string time_text(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  const Unit* unit = &kUnits.back();
  for (const Unit& one : kUnits) {
    if (seconds >= 0.9995 * one.seconds) {  // not "1000 ns"
      unit = &one;
      break;
    }
  }
  const double value = seconds / unit->seconds;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s",
                value < 10    ? 2
                : value < 100 ? 1
                              : 0,
                value, unit->name);
  return text.data();
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

std::string row(const char* stage, const StageShares& shares) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "  %-10s %9s %9s %9s\n", stage,
                percent(shares.busy).c_str(), percent(shares.starved).c_str(),
                percent(shares.blocked).c_str());
  return text.data();
}

}  // namespace

double Stats::overlap_efficiency() const noexcept {
  return t_step > 0 ? std::max(t_c, t_x) / t_step : 0;
}

std::string Stats::bottleneck() const {
  if (t_step <= 0)
    return "No step was sampled: an epoch's first never is, and of the others one in sample_every.";
  // Below this share of the step no stage is busy enough to be what limits the loop.
  constexpr double kSaturated = 0.9;
  const double read = t_read * static_cast<double>(devices) / static_cast<double>(workers);
  const double most = std::max({read, t_x, t_c});
  const std::string share = percent(std::min(most / t_step, 1.0)) + " of the step";
  if (most < kSaturated * t_step) {
    if (prefetch_depth == 1 && t_x + t_c > kSaturated * t_step) {
      return "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, and "
             "a step takes max(Tc, Tx) = " +
             time_text(std::max(t_c, t_x)) + " instead of " + time_text(t_step) + ".";
    }
    if (consumer.busy + consumer.blocked >= kSaturated) {
      return "The rest of the loop limits it: " + percent(consumer.blocked) +
             " of the step pass between the release of a batch and the request of the next, Tc "
             "is " +
             percent(consumer.busy) + ".";
    }
    return "No stage is saturated (the busiest takes " + share +
           "): the time goes into waiting for each other; a larger prefetch_depth or more CPUs may "
           "help.";
  }
  if (most == t_c) {
    return "The consumer limits the loop (Tc is " + share +
           "): reading and copying are hidden behind it, and only a faster step helps.";
  }
  if (most == t_x) {
    return "The link limits the loop (Tx is " + share +
           "): fewer bytes per sample, or a faster link, would help.";
  }
  return "The readers limit the loop (Tread / workers is " + share + "): more workers than " +
         std::to_string(workers) + " or a faster dataset would help, until " +
         (t_c >= t_x ? "the consumer" : "the link") + " limits it at " +
         time_text(std::max(t_c, t_x)) + " a step.";
}

std::string Stats::table() const {
  if (sampled_steps == 0) {
    return "  " + bottleneck() + " (" + std::to_string(batches) + " batches were released.)\n";
  }
  std::string text = "  stage           busy   starved   blocked\n";
  text += row("reader", reader) + row("copier", copier) + row("consumer", consumer);
  text += "  Tread " + time_text(t_read) + " / " + std::to_string(workers) +
          (workers == 1 ? " worker" : " workers") + "   Tx " + time_text(t_x) + "   Tc " +
          time_text(t_c) + "   Tstep " + time_text(t_step) + "\n";
  std::array<char, 128> oe{};
  std::snprintf(oe.data(), oe.size(),
                "  OE = max(Tc, Tx) / Tstep = %.3f   (%llu steps sampled of %llu)\n",
                overlap_efficiency(), static_cast<unsigned long long>(sampled_steps),
                static_cast<unsigned long long>(batches));
  text += oe.data();
  text += "  " + bottleneck() + "\n";
  return text;
}

}  // namespace leat::feeder
