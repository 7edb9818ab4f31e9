#include "leat/overlap/table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "leat/feeder/stats/figures.h"

namespace overlap {
namespace {

using leat::feeder::bytes_text;
using leat::feeder::number_text;
using leat::feeder::percent_text;
using leat::feeder::time_text;

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

std::string times_text(double factor) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", factor);
  return text.data();
}

// Returns "?" for a figure that is not known.
template <class Text>
std::string known(double figure, const Text& text) {
  return std::isnan(figure) ? "?" : text(figure);
}

std::string counted(std::size_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::string against(std::size_t bytes, std::size_t cap) {
  return bytes_text(static_cast<double>(bytes)) +
         (cap == 0 ? "" : " of at most " + bytes_text(static_cast<double>(cap)));
}

std::string row(const char* what, const std::string& alone, const std::string& fed,
                const std::string& note) {
  std::string text = "  " + padded(what, 8) + padded(alone, 13) + padded(fed, 13) + note;
  text.resize(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string head(const Measurement& m) {
  const Shape& shape = m.shape;
  std::string text = m.devices == 1 ? m.device : counted(m.devices, "device") + " from " + m.device;
  text += " (" + m.description + ")";
  if (m.virtual_time) text += ", virtual time";
  text +=
      "\n" + shape.name + ": batches of " + bytes_text(static_cast<double>(shape.batch_bytes())) +
      " (" + counted(shape.batch_size, "sample") + ", " + counted(shape.tensors, "tensor") +
      "), depth " + std::to_string(shape.prefetch_depth) + ", " + counted(shape.workers, "worker") +
      "; " + counted(m.steps, "step") + " of " + m.compute + "\n";
  return text;
}

}  // namespace

std::string run_table(const Measurement& m) {
  const RankResult& fed = m.slowest();
  const leat::feeder::Stats& stats = fed.stats;
  const auto sampled = [&](const std::string& figure) { return m.is_sampled() ? figure : "?"; };
  std::string text =
      head(m) + "\n" + leat::feeder::paragraph(stats.bottleneck()) + stats.shares_table() + "\n";
  text += row("", "alone", "in the loop", "");
  if (stats.t_read > 0) text += row("Tread", "", time_text(stats.t_read), "");
  text += row("Tx", time_text(m.t_x_alone), sampled(time_text(stats.t_x)),
              "link efficiency " + known(m.link_efficiency(), number_text) + " of " +
                  (m.link_peak > 0 ? bytes_text(m.link_peak) + "/s" : "?"));
  text += row("Tc", time_text(m.t_c_alone), sampled(time_text(stats.t_c)),
              "interference " + known(m.interference(), number_text));
  text += row("Tstep", "", time_text(fed.t_step),
              "mean of " + std::to_string(m.steps) + "; p99 " + sampled(time_text(stats.step.p99)));
  const double bubble = std::max(fed.t_step - std::max(stats.t_c, stats.t_x), 0.0);
  text += row("bubble", "", sampled(time_text(bubble)),
              "mean; p99 " + sampled(time_text(stats.bubble.p99)));
  const std::string why_not =
      m.is_sampled() ? leat::feeder::why_no_efficiency(stats.t_c, stats.t_x, fed.t_step) : "";
  text += "\n" + leat::feeder::paragraph(why_not) + "  ";
  if (why_not.empty()) {
    text += "OE " + efficiency_text(m) + "   hidden " + known(m.hidden_fraction(), percent_text) +
            "   ";
  }
  text += "feed efficiency " + known(m.feed_efficiency(), number_text) + "   AU " +
          known(m.accelerator_utilization(), percent_text) + "\n";
  text += "  the serial loop takes " + time_text(m.t_serial) + " a step, " +
          known(m.speed_up(), times_text) + " times as long\n";
  text += "  without any feeding a step takes " + time_text(m.t_replay) + ": headspace " +
          known(m.headspace(), percent_text) + "\n";
  constexpr double kNoise = 1.01;
  if (m.excess > kNoise) {
    text += "  the loop was " + percent_text(m.excess - 1) +
            " faster than its parts alone: other work disturbed the machine meanwhile\n";
  }
  const std::string memory =
      "pinned memory " + against(m.pinned_bytes, m.shape.max_pinned_bytes) + ", device memory " +
      against(m.device_bytes, m.shape.max_device_bytes) + (m.devices > 1 ? " each" : "");
  text += m.virtual_time  // which does not run the kernels
              ? "  " + memory + "\n"
              : "  " + known(m.core_seconds_per_gb(), times_text) + " core-seconds per GB; " +
                    memory + "\n";
  for (std::size_t rank = 0; m.ranks.size() > 1 && rank < m.ranks.size(); ++rank) {
    const RankResult& one = m.ranks[rank];
    text += "  rank " + std::to_string(rank) + ": Tstep " + time_text(one.t_step) + ", OE " +
            known(Measurement::overlap_efficiency(one), number_text) + "\n";
  }
  return text + stats.copies_text();
}

std::string efficiency_text(const Measurement& measured) {
  return known(measured.overlap_efficiency(), number_text);
}

std::string summary_line(const SweepCell& cell) {
  const std::string what = "depth " + std::to_string(cell.depth) + "  max(Tx, Tc) " +
                           time_text(std::chrono::duration<double>(cell.step).count()) +
                           "  Tx/Tc " + times_text(cell.ratio);
  if (!cell.is_measured()) return what + "  not measured";
  return what + "  Tstep " + time_text(cell.result->slowest().t_step) + "  OE " +
         efficiency_text(*cell.result);
}

std::string sweep_table(const Sweep& sweep) {
  std::string text;
  for (const std::size_t depth : kDepths) {
    text += "OE at depth " + std::to_string(depth) + "\n" + padded("  max(Tx, Tc)", 15);
    for (const double ratio : kRatios) text += padded("Tx/Tc " + times_text(ratio), 13);
    text += "\n";
    for (const leat::Duration step : kSteps) {
      text += padded("  " + time_text(std::chrono::duration<double>(step).count()), 15);
      for (const double ratio : kRatios) {
        const SweepCell* const cell = sweep.find(depth, step, ratio);
        text += padded(cell == nullptr       ? ""
                       : cell->is_measured() ? number_text(cell->result->overlap_efficiency())
                                             : "-",
                       13);
      }
      text += "\n";
    }
  }
  for (const SweepCell& cell : sweep.cells) {
    if (!cell.is_measured()) text += "- " + cell.why_not + "\n";
  }
  return text;
}

}  // namespace overlap
