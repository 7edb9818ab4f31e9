#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "leat/feeder/loop_meter.h"
#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

std::string quantiles_row(const char* what, const Quantiles& of, std::uint64_t count,
                          const char* counted) {
  if (count == 0) return "";
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "  %-22s %9s %9s   of %llu %s\n", what,
                time_text(of.p50).c_str(), time_text(of.p99).c_str(),
                static_cast<unsigned long long>(count), counted);
  return text.data();
}

}  // namespace

double LoopFigures::share() const noexcept {
  const double part = has_device() ? gap_sum : wait_sum;
  const double whole = has_device() ? sampled_step_sum : step_sum;
  return whole > 0 ? std::min(part / whole, 1.0) : 0;
}

std::string LoopFigures::sentence() const {
  const auto told = [](const Quantiles& of) {
    return time_text(of.p50) + " (p50; p99 " + time_text(of.p99) + ")";
  };
  std::string text;
  if (steps == 0) {
    text =
        "no step was measured: a step leads from one batch of an iteration to the next, and the "
        "first one is left out";
  } else if (has_device()) {
    text = "data costs " + percent_text(share()) + " of the step: the device is idle for " +
           told(gap) + " while the loop waits for its next batch, which takes the host " +
           told(wait) + "; a step takes " + told(sampled_step) + " (" + std::to_string(sampled) +
           " of " + std::to_string(steps) + " steps sampled)";
  } else {
    text = "data costs " + percent_text(share()) + " of the step: the loop waits for " +
           told(wait) + " for its next batch; a step takes " + told(step) + " (" +
           std::to_string(steps) + (steps == 1 ? " step" : " steps") + ", on the host)";
  }
  if (iterations > 0) {
    text += "; the first batch came after " + time_text(first_wait.p50);
  }
  if (!device_error.empty()) text += "; the device is measured no longer: " + device_error;
  return text;
}

std::string LoopFigures::table() const {
  return "                               p50       p99\n" +
         quantiles_row("step", step, steps, "steps, on the host") +
         quantiles_row("wait for a batch", wait, steps, "steps, on the host") +
         quantiles_row("wait for the first", first_wait, iterations, "iterations, on the host") +
         quantiles_row("step, device", sampled_step, sampled, "sampled steps") +
         quantiles_row("idle gap, device", gap, sampled, "sampled steps") + "  " + sentence() +
         "\n";
}

}  // namespace leat::feeder
