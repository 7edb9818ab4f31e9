#include "leat/overlap/figure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "leat/feeder/stats/figures.h"
#include "leat/overlap/page.h"
#include "leat/overlap/table.h"

namespace overlap {

namespace {

using leat::feeder::time_text;

// Lengths in the SVG's units. A figure is kWidth wide.
constexpr double kWidth = 900;
constexpr double kLabels = 190;  // for the names of lanes
constexpr double kLane = 26;
constexpr double kLine = 20;   // height of a line of text
constexpr double kSpace = 14;  // between parts
constexpr double kMargin = 16;
constexpr std::size_t kLetters = 130;  // letters that fit into a line
constexpr std::size_t kMostReaders = 8;

// Shorter times, in seconds, count as zero: a trace counts nanoseconds.
constexpr double kInstant = 0.5e-9;

// The length of a timeline, in steps of the slowest run shown.
constexpr double kShownSteps = 5;

// Escapes text for XML. Replaces bytes that are not UTF-8, which a file's name may have.
std::string escaped(std::string_view text) {
  using nlohmann::json;
  const std::string valid =
      json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace))
          .get<std::string>();
  std::string safe;
  for (const char one : valid) {
    switch (one) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += static_cast<unsigned char>(one) < ' ' ? ' ' : one;
    }
  }
  return safe;
}

// Returns a coordinate as "12.5".
std::string at(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

std::string words(double x, double y, std::string_view text, const char* type = "",
                  Anchor anchor = Anchor::kStart) {
  const char* const names[] = {"start", "middle", "end"};
  std::string element = R"(<text x=")" + at(x) + R"(" y=")" + at(y) + "\"";
  if (anchor != Anchor::kStart) {
    element += std::string(" text-anchor=\"") + names[static_cast<std::size_t>(anchor)] + "\"";
  }
  if (*type != '\0') element += std::string(" class=\"") + type + "\"";
  return element + ">" + escaped(text) + "</text>\n";
}

std::string box(double x, double y, double width, double height, const std::string& fill,
                std::string_view title) {
  return R"(<rect x=")" + at(x) + R"(" y=")" + at(y) + R"(" width=")" + at(width) +
         R"(" height=")" + at(height) + R"(" rx="2" style="fill: )" + fill + "\"><title>" +
         escaped(title) + "</title></rect>\n";
}

// A part of the page that begins at y, and where it ends.
struct Part {
  std::string text;
  double end = 0;
};

std::string element(double height, double margin, std::string_view label,
                    const std::string& content) {
  return R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox=")" + at(0 - margin) + " 0 " +
         at(kWidth + 2 * margin) + " " + at(height) + R"(" role="img" aria-label=")" +
         escaped(label) + "\">\n" + content + "</svg>\n";
}

struct Span {
  std::string kind;  // "read", "copy", "use"
  std::uint64_t batch = 0;
  double begin = 0;  // seconds
  double end = 0;
};

// The lanes of one run: readers first, then the devices.
struct Lanes {
  std::map<std::pair<int, int>, std::pair<std::string, std::vector<Span>>> by_track;
  double begin = 0;  // beginning of the time shown
  std::size_t readers_left_out = 0;
};

// Returns the lanes of a trace (feeder/trace.h) that are not empty in the `length` seconds in its
// middle.
Lanes lanes_of(const Measurement& run, double length) {
  const nlohmann::json trace = nlohmann::json::parse(run.trace);
  std::map<int, std::string> processes;
  Lanes lanes;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    const int process = event.at("pid").get<int>();
    const std::string name = event.at("name").get<std::string>();
    if (name == "process_name") processes[process] = event.at("args").at("name").get<std::string>();
    if (!event.contains("tid")) continue;
    auto& [label, spans] = lanes.by_track[{process, event.at("tid").get<int>()}];
    if (name == "thread_name") label = event.at("args").at("name").get<std::string>();
    const std::string kind = name.substr(0, name.find(' '));
    if (event.at("ph") != "X" || (kind != "read" && kind != "copy" && kind != "use")) continue;
    constexpr double kMicro = 1e-6;
    const double begin = event.at("ts").get<double>() * kMicro;
    spans.push_back({.kind = kind,
                     .batch = event.at("args").at("batch").get<std::uint64_t>(),
                     .begin = begin,
                     .end = begin + event.at("dur").get<double>() * kMicro});
  }
  std::vector<double> uses;
  for (const auto& [track, lane] : lanes.by_track) {
    for (const Span& span : lane.second) {
      if (span.kind == "use") uses.push_back(span.begin);
    }
  }
  std::ranges::sort(uses);
  if (!uses.empty()) {
    // The middle of the trace, moved to the beginning of a step.
    const double first = (uses.front() + uses.back() - length) / 2;
    const auto from = std::ranges::lower_bound(uses, std::max(first, uses.front()));
    lanes.begin = from == uses.end() ? uses.front() : *from;
  }
  const double end = lanes.begin + length;
  for (auto& [track, lane] : lanes.by_track) {
    std::erase_if(lane.second, [&](const Span& span) {
      return (span.end <= lanes.begin + kInstant && span.begin < lanes.begin - kInstant) ||
             span.begin >= end - kInstant;
    });
    if (const auto process = processes.find(track.first);
        process != processes.end() && process->second != "host") {
      const std::string& name = process->second;  // "rank 0: host:0"
      const std::size_t colon = name.find(": ");
      lane.first = (colon == std::string::npos ? name : name.substr(colon + 2)) + ": " + lane.first;
    }
  }
  std::erase_if(lanes.by_track, [](const auto& one) { return one.second.second.empty(); });
  std::size_t readers = 0;
  std::erase_if(lanes.by_track, [&](const auto& one) {
    return one.second.second.front().kind == "read" && ++readers > kMostReaders;
  });
  lanes.readers_left_out = readers - std::min(readers, kMostReaders);
  return lanes;
}

std::string title_of(const Measurement& run) {
  const leat::feeder::Stats& stats = run.slowest().stats;
  const bool is_sampled = run.is_sampled();
  constexpr std::size_t kLongest = 40;  // a dataset's name contains file names
  std::string name = run.shape.name == Shape().name ? "" : run.shape.name + ", ";
  if (name.size() > kLongest) name = name.substr(0, kLongest - 5) + "..., ";
  return name + "depth " + std::to_string(run.shape.prefetch_depth) + ": Tx " +
         (is_sampled ? time_text(stats.t_x) : "?") + ", Tc " +
         (is_sampled ? time_text(stats.t_c) : "?") + ", Tstep " + time_text(run.slowest().t_step) +
         ", OE " + efficiency_text(run);
}

Part timelines_at(double y, const std::vector<const Measurement*>& runs) {
  double length = 0;
  for (const Measurement* run : runs)
    length = std::max(length, kShownSteps * run->slowest().t_step);
  if (length <= 0) return {.text = "", .end = y};
  const double scale = (kWidth - kLabels) / length;
  std::string text;
  for (const Measurement* run : runs) {
    const Lanes lanes = lanes_of(*run, length);
    y += kLine;
    text += words(0, y - 5, title_of(*run), "title");
    if (lanes.readers_left_out > 0) {
      text += words(kWidth, y - 5,
                    std::to_string(lanes.readers_left_out) + " more readers are not shown", "soft",
                    Anchor::kEnd);
    }
    for (const auto& [track, lane] : lanes.by_track) {
      text += words(0, y + 16, lane.first);
      for (const Span& span : lane.second) {
        const double begin = std::max(span.begin - lanes.begin, 0.0);
        const double end = std::min(span.end - lanes.begin, length);
        const double wide = std::max((end - begin) * scale, 1.0);
        const double x = std::min(kLabels + begin * scale, kWidth - 1);
        text += box(
            x, y + 2, wide, kLane - 6, "var(--" + span.kind + ")",
            span.kind + " " + std::to_string(span.batch) + ": " + time_text(span.end - span.begin));
        constexpr double kDigits = 30;
        if (wide > kDigits) {
          text += words(x + wide / 2, y + 16, std::to_string(span.batch), "on", Anchor::kMiddle);
        }
      }
      y += kLane;
      text += R"(<path d="M)" + at(kLabels) + " " + at(y - 1) + "H" + at(kWidth) +
              "\" class=\"line\"/>\n";
    }
    y += kSpace / 2;
  }
  text += words(kLabels, y + 12, "0", "soft");
  text += words(kWidth, y + 12, time_text(length), "soft", Anchor::kEnd);
  text += words((kLabels + kWidth) / 2, y + 12, "numbers are those of batches", "soft",
                Anchor::kMiddle);
  return {.text = std::move(text), .end = y + kLine};
}

// Returns the color of an OE. The scale goes from 0.5, copies and compute in turns, to 1. Nearly
// everybody can tell its ends, orange and blue, apart. Both are dark enough for white text.
std::string color_of(double efficiency) {
  constexpr std::array<double, 3> kWorst{184, 84, 32};
  constexpr std::array<double, 3> kBest{22, 104, 142};
  const double good = std::clamp((efficiency - 0.5) / 0.5, 0.0, 1.0);
  std::string color = "rgb(";
  for (std::size_t i = 0; i < kWorst.size(); ++i) {
    if (i > 0) color += ", ";
    color += std::to_string(std::lround(kWorst[i] + good * (kBest[i] - kWorst[i])));
  }
  return color + ")";
}

Part heat_maps_at(double y, const Sweep& sweep) {
  constexpr double kLeft = 62;  // for the labels of the steps
  constexpr double kHalf = (kWidth - 2 * kSpace) / 2;
  constexpr double kCell = (kHalf - kLeft) / static_cast<double>(std::size(kRatios));
  constexpr double kHeight = 2 * kLine + kLane * static_cast<double>(std::size(kSteps)) + kSpace;
  std::string text;
  bool is_left = true;  // maps come in pairs
  for (const std::size_t depth : kDepths) {
    const double x = is_left ? 0 : kHalf + 2 * kSpace;
    double row = y + kLine;
    text += words(x, row - 5, "depth " + std::to_string(depth), "title");
    row += kLine;
    text += words(x, row - 5, "Tx / Tc", "soft");
    double column = x + kLeft;
    for (const double ratio : kRatios) {
      std::array<char, 16> shown{};
      std::snprintf(shown.data(), shown.size(), "%g", ratio);
      text += words(column + kCell / 2, row - 5, shown.data(), "soft", Anchor::kMiddle);
      column += kCell;
    }
    for (const leat::Duration step : kSteps) {
      text += words(x + kLeft - 8, row + 16, time_text(seconds(step)), "soft", Anchor::kEnd);
      column = x + kLeft;
      for (const double ratio : kRatios) {
        const SweepCell* const cell = sweep.find(depth, step, ratio);
        if (cell != nullptr && cell->is_measured() && cell->result->is_sampled()) {
          const double efficiency = cell->result->overlap_efficiency();
          text += box(column + 1, row + 1, kCell - 2, kLane - 2, color_of(efficiency),
                      "Tstep " + time_text(cell->result->slowest().t_step) + ". " +
                          cell->result->slowest().stats.bottleneck());
          text += words(column + kCell / 2, row + 17, efficiency_text(*cell->result), "white",
                        Anchor::kMiddle);
        } else if (cell != nullptr) {
          text += box(column + 1, row + 1, kCell - 2, kLane - 2, "var(--line)",
                      cell->is_measured() ? "no step was sampled" : cell->why_not);
          text += words(column + kCell / 2, row + 17, cell->is_measured() ? "?" : "-", "soft",
                        Anchor::kMiddle);
        }
        column += kCell;
      }
      row += kLane;
    }
    if (!is_left) y += kHeight;
    is_left = !is_left;
  }
  return {.text = std::move(text), .end = is_left ? y : y + kHeight};
}

std::vector<const Measurement*> traced(const std::vector<Measurement>& runs) {
  std::vector<const Measurement*> found;
  for (const Measurement& run : runs) {
    if (!run.trace.empty()) found.push_back(&run);
  }
  return found;
}

}  // namespace

std::string timelines_svg(const std::vector<const Measurement*>& runs) {
  const Part part = timelines_at(0, runs);
  return part.text.empty() ? "" : element(part.end, 0, "timeline of a few steps", part.text);
}

std::string heat_maps_svg(const Sweep& sweep) {
  const Part part = heat_maps_at(0, sweep);
  return element(part.end, 0, "OE over Tx / Tc and the step", part.text);
}

std::string svg_figure(const Provenance& from, const std::vector<Measurement>& runs,
                       const Sweep* sweep) {
  const std::vector<const Measurement*> shown = sweep == nullptr ? traced(runs) : sweep->detailed();
  double y = kSpace;
  std::string text;
  const auto heading = [&](const std::string& what) {
    y += kLine;
    text += words(0, y - 4, what, "heading");
  };
  const auto place = [&](const Part& part) {
    text += part.text;
    y = part.end + kSpace;
  };
  if (!shown.empty()) {
    heading("A few steps: copies to the device, and work on the batches that are there");
    if (sweep != nullptr) {
      place(timelines_at(y, shown));  // side by side, to be compared
    } else {
      for (const Measurement* run : shown) place(timelines_at(y, {run}));
    }
  }
  const Measurement* first = shown.empty() ? nullptr : shown[0];
  if (sweep != nullptr) {
    heading("OE = max(Tc, Tx) / Tstep, over Tx / Tc and the longer of the two");
    place(heat_maps_at(y, *sweep));
    for (const SweepCell& cell : sweep->cells) {
      if (first == nullptr && cell.is_measured()) first = &*cell.result;
    }
  }
  if (first == nullptr) return "";
  text += words(0, y,
                first->device + " (" + first->description + ")" +
                    (first->virtual_time ? ", virtual time" : "") + "; " + from.machine + "; " +
                    from.date.substr(0, from.date.find('T')),
                "soft");
  for (std::size_t begin = 0; begin < from.command.size();) {
    std::size_t end = std::min(begin + kLetters, from.command.size());
    if (end < from.command.size()) {
      const std::size_t space = from.command.rfind(' ', end);
      if (space != std::string::npos && space > begin) end = space;
    }
    y += kLine;
    text += words(0, y, from.command.substr(begin, end - begin), "soft");
    begin = end + (end < from.command.size() && from.command[end] == ' ' ? 1 : 0);
  }
  y += kSpace;
  const std::string style =
      "<style>" + std::string(kPalette) +
      "  svg { background: var(--card); font: 12px system-ui, sans-serif; }\n" +
      "  text { fill: var(--ink); } .soft { fill: var(--soft); } .on { fill: var(--on); }\n" +
      "  .white { fill: #fff; } .title { font-weight: 600; }\n" +
      "  .heading { font-size: 15px; font-weight: 600; } .line { stroke: var(--line); "
      "}\n</style>\n";
  return element(y, kMargin, "overlap of copies and compute", style + text);
}

}  // namespace overlap
