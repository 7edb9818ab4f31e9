#include "leat/pipeline/schedule/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/pipeline/schedule/arrows.h"
#include "leat/pipeline/schedule/table.h"
#include "leat/pipeline/text.h"

namespace schedule_program {
namespace {

using namespace leat::pipeline;

// Lengths in the SVG's units.
constexpr double kWidth = 1200;  // of the lanes
constexpr double kLabels = 70;   // for their names
constexpr double kLane = 30;
constexpr double kBox = 20;  // the rest of a lane is for transfers
constexpr double kMargin = 16;
constexpr double kLine = 20;                   // height of a line of text
constexpr double kStuck = 110;                 // for the transfer that is never done
constexpr std::size_t kMostTooltips = 20'000;  // actions; more would take the viewer too long
constexpr std::size_t kMostArrows = 600;       // transfers; more could not be told apart

constexpr std::string_view kStyle = R"(<style>
  :root { color-scheme: light dark; --card: #ffffff; --ink: #1c2024; --soft: #5f6b76; --fill: #eceff1;
    --wait: #f3d6d2; --F: #3a73b8; --B: #2f7d4f; --I: #1d8a8a; --W: #b27614; --send: #7a5ac2;
    --recv: #8a949d; --arrow: #9aa5af; --stop: #c23b2a; --on: #ffffff; }
  @media (prefers-color-scheme: dark) { :root { --card: #1d2125; --ink: #e6e9ec; --soft: #9aa5af;
    --fill: #2a3036; --wait: #56302c; --F: #6ca3e6; --B: #58b27e; --I: #4dbdbd; --W: #e3a452;
    --send: #b49cf0; --recv: #7d8790; --arrow: #5f6b76; --stop: #f0806f; --on: #10151a; } }
  svg { background: var(--card); font: 12px system-ui, sans-serif; } text { fill: var(--ink); }
  .soft { fill: var(--soft); } .on { fill: var(--on); font-size: 11px; text-anchor: middle; }
  .stop { fill: var(--stop); } .path { fill: none; stroke: var(--ink); stroke-width: 1.5; }
  .arrow { stroke: var(--arrow); stroke-width: 0.7; } .end { text-anchor: end; }
  .middle { text-anchor: middle; }
</style>
)";

constexpr std::array<std::pair<const char*, const char*>, 8> kLegend = {{{"F", "F forward"},
                                                                         {"B", "B backward"},
                                                                         {"I", "I input"},
                                                                         {"W", "W weights"},
                                                                         {"send", "sends"},
                                                                         {"recv", "receives"},
                                                                         {"fill", "fill, drain"},
                                                                         {"wait", "waits"}}};

std::string safe(std::string_view text) {
  const std::string valid = Json::parse(to_line(Json(text))).get<std::string>();
  std::string out;
  for (const char one : valid) {
    switch (one) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(one) < ' ' ? ' ' : one;
    }
  }
  return out;
}

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string words_at(double x, double y, const char* type, std::string_view text) {
  return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" class=\"" + type + "\">" +
         safe(text) + "</text>\n";
}

// The color of what computes, as a variable.
const char* color_of(Op op) {
  constexpr std::array<const char*, 4> kColors = {"F", "B", "I", "W"};
  return kColors[static_cast<std::size_t>(op)];
}

// A length of time that divides `makespan` into 5 to 12 parts: 1, 2 or 5, times a power of ten.
std::int64_t grid_step(std::int64_t makespan) {
  std::int64_t step = 1;
  for (int i = 0; makespan / step > 12; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

class Figure {
 public:
  Figure(const Schedule& schedule, const Simulation& simulation)
      : schedule_(schedule), simulation_(simulation) {
    std::int64_t end = simulation.makespan;
    for (const std::vector<Span>& spans : simulation.spans) {
      if (!spans.empty()) end = std::max(end, spans.back().end);
      actions_ += spans.size();
    }
    scale_ = kWidth / static_cast<double>(std::max<std::int64_t>(end, 1));
  }

  std::string svg(const std::string& name) {
    heading(name);
    top_ = 3 * kLine;
    for (std::size_t rank = 0; rank < simulation_.spans.size(); ++rank) lane(rank);
    for (const CriticalStep& step : simulation_.critical_path) {
      if (computes(step.span.action.op)) box(step.row, step.span, "class=\"path\"", "");
    }
    if (const std::vector<Arrow> arrows = arrows_of(simulation_); arrows.size() <= kMostArrows) {
      for (const Arrow& one : arrows) arrow(one);
    }
    if (simulation_.stop.has_value()) stop();
    const double bottom = lane_top(simulation_.spans.size()) + kLine;
    axis(bottom - kLine + 2);
    const double width = kLabels + kWidth + (simulation_.stop.has_value() ? kStuck : 0);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"" + coordinate(-kMargin) + " 0 " +
           coordinate(width + 2 * kMargin) + ' ' + coordinate(bottom + kMargin) +
           "\" role=\"img\" aria-label=\"" + safe(name) + "\">\n" + std::string(kStyle) + text_ +
           "</svg>\n";
  }

 private:
  double x_of(std::int64_t tick) const { return kLabels + static_cast<double>(tick) * scale_; }
  double lane_top(std::size_t rank) const { return top_ + static_cast<double>(rank) * kLane; }

  void heading(const std::string& name) {
    std::array<char, 64> bubble{};
    std::snprintf(bubble.data(), bubble.size(), "%.1f %%", 100 * simulation_.bubble);
    const std::string end = std::to_string(simulation_.makespan);
    text_ += words_at(
        0, kLine, "",
        name + (simulation_.stop.has_value() ? ": stops at tick " + end
                                             : ": makespan " + end + ", bubble " + bubble.data()));
    double x = 0;
    for (const auto& [color, what] : kLegend) {
      rectangle(x, 2 * kLine - 10, 10, 10, color);
      text_ += words_at(x + 14, 2 * kLine, "soft", what);
      x += 100;
    }
    text_ += words_at(x, 2 * kLine, "soft", "framed: the critical path");
  }

  void rectangle(double x, double y, double width, double height, const char* color) {
    text_ += "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" +
             coordinate(width) + "\" height=\"" + coordinate(height) + "\" style=\"fill: var(--" +
             color + ")\"/>\n";
  }

  void box(std::size_t rank, const Span& span, const std::string& how, const std::string& title) {
    const double width = static_cast<double>(span.end - span.begin) * scale_;
    const double gap = std::min(0.5, width / 8);
    text_ += "<rect x=\"" + coordinate(x_of(span.begin) + gap) + "\" y=\"" +
             coordinate(lane_top(rank)) + "\" width=\"" + coordinate(width - 2 * gap) +
             "\" height=\"" + coordinate(kBox) + "\" " + how +
             (title.empty() ? "/>\n" : "><title>" + safe(title) + "</title></rect>\n");
  }

  void lane(std::size_t rank) {
    const std::vector<Span>& spans = simulation_.spans[rank];
    const RankTimes& times = simulation_.ranks[rank];
    const double y = lane_top(rank);
    text_ += words_at(0, y + 15, "", "rank " + std::to_string(rank));
    const std::int64_t last = simulation_.makespan - times.drain;
    rectangle(kLabels, y, static_cast<double>(simulation_.makespan) * scale_, kBox, "fill");
    rectangle(x_of(times.fill), y,
              static_cast<double>(std::max<std::int64_t>(last - times.fill, 0)) * scale_, kBox,
              "wait");
    std::vector<std::int32_t> stages;  // of this rank, in order: each has its own shade
    for (const Span& span : spans) {
      if (computes(span.action.op)) stages.push_back(span.action.stage);
    }
    std::ranges::sort(stages);
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    for (const Span& span : spans) {
      if (span.begin == span.end) continue;
      const Action& action = span.action;
      const std::string title = actions_ > kMostTooltips
                                    ? ""
                                    : to_string(action) + ": " + std::to_string(span.begin) +
                                          " to " + std::to_string(span.end);
      if (transfers(action.op)) {
        rectangle(x_of(span.begin), y + kBox + (sends(action.op) ? 1 : 4),
                  static_cast<double>(span.end - span.begin) * scale_, 2,
                  sends(action.op) ? "send" : "recv");
        continue;
      }
      const auto shade =
          static_cast<double>(std::ranges::lower_bound(stages, action.stage) - stages.begin());
      box(rank, span,
          std::string("style=\"fill: var(--") + color_of(action.op) + "); opacity: " +
              coordinate(1 - 0.4 * shade / static_cast<double>(stages.size())) + '"',
          title);
      const std::string number = std::to_string(action.microbatch);
      const double width = static_cast<double>(span.end - span.begin) * scale_;
      if (width > 4 + 7 * static_cast<double>(number.size())) {
        text_ += words_at(x_of(span.begin) + width / 2, y + 14, "on", number);
      }
    }
  }

  void arrow(const Arrow& one) {
    const bool is_down = one.to > one.from;
    text_ += "<line class=\"arrow\" x1=\"" + coordinate(x_of(one.made->end)) + "\" y1=\"" +
             coordinate(lane_top(one.from) + (is_down ? kBox : 0)) + "\" x2=\"" +
             coordinate(x_of(one.used->begin)) + "\" y2=\"" +
             coordinate(lane_top(one.to) + (is_down ? 0 : kBox)) + "\"/>\n";
  }

  void stop() {
    for (const StuckTransfer& one : simulation_.stop->stuck) {
      const double y = lane_top(one.row) + 15;
      text_ += words_at(kLabels + kWidth + 6, y, "stop", to_string(one.action) + " is stuck");
    }
  }

  void axis(double y) {
    const std::int64_t step = grid_step(simulation_.makespan);
    for (std::int64_t tick = 0; tick <= simulation_.makespan; tick += step) {
      text_ += words_at(x_of(tick), y + 12, "soft middle", std::to_string(tick));
      if (tick > simulation_.makespan - step) break;  // the sum may be out of range
    }
    const bool several = static_cast<std::size_t>(schedule_.stages) > schedule_.rows.size();
    text_ += words_at(kLabels + kWidth, y + 26, "soft end",
                      std::string("ticks; numbers are those of microbatches") +
                          (several ? "; of a rank's stages, the later is the lighter" : ""));
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  std::size_t actions_ = 0;
  double scale_ = 1;
  double top_ = 0;
  std::string text_;
};

}  // namespace

std::string figure_svg(const Schedule& schedule, const Simulation& simulation,
                       const std::string& name) {
  return Figure(schedule, simulation).svg(name);
}

}  // namespace schedule_program
