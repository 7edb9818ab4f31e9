#include "leat/feeder/live_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "leat/feeder/figures.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kLeast = 40;     // columns
constexpr std::size_t kMostRows = 8;   // devices
constexpr std::size_t kLaneSteps = 4;  // steps in a lane

// How a count is written: "12.3", "4.04 k".
std::string count_text(double count) {
  static constexpr std::array<const char*, 4> kUnits = {"", " k", " M", " G"};
  std::size_t unit = 0;
  while (count >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f%s",
                count < 9.995   ? 2
                : count < 99.95 ? 1
                                : 0,
                count, kUnits[unit]);
  return text.data();
}

// Nothing is known: "-", where a 0 would be a figure.
std::string count_text(const std::optional<double>& count) {
  return count.has_value() ? count_text(*count) : "-";
}

// Bytes a second.
std::string bandwidth_text(const LiveRow& row) {
  if (!row.steps_per_second.has_value()) return "- B/s";
  return bytes_text(*row.steps_per_second * row.stats.batch_bytes) + "/s";
}

// "5:02", "1:00:07".
std::string duration_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(std::llround(std::min(seconds, 1e9)));
  std::array<char, 48> text{};
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60,
                  whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%llu:%02llu", whole / 60, whole % 60);
  }
  return text.data();
}

std::string share_text(double share) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%3.0f %%", 100 * share);
  return text.data();
}

// Each character that we write takes one column.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string cut(const std::string& text, std::size_t width) {
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80 && ++column > width) return text.substr(0, i);
  }
  return text;
}

// A part of a line that may have a colour, which takes no column.
class Line {
 public:
  explicit Line(const LiveStyle& style) : style_(style) {}
  Line& operator<<(std::string_view text) {
    plain_ += text;
    marks_.resize(plain_.size(), 0);
    return *this;
  }
  // `code`: of ECMA-48's SGR.
  void add(std::string_view text, char code) {
    plain_ += text;
    marks_.resize(plain_.size(), code);
  }
  [[nodiscard]] std::size_t width() const { return columns(plain_); }
  [[nodiscard]] std::string text() const {
    std::string shown = cut(plain_, style_.width);
    if (!style_.colour) return shown;
    std::string text;
    char now = 0;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (marks_[i] != now) {
        now = marks_[i];
        text += now == 0 ? "\x1b[0m" : "\x1b[3" + std::string(1, now) + "m";
      }
      text += shown[i];
    }
    return now == 0 ? text : text + "\x1b[0m";
  }

 private:
  const LiveStyle& style_;
  std::string plain_;
  std::string marks_;  // a colour for each byte; 0: none
};
constexpr char kGreen = '2';
constexpr char kYellow = '3';
constexpr char kBlue = '4';

// A share of `width` columns, to an eighth of one.
std::string bar(double share, std::size_t width, bool unicode) {
  static constexpr std::array<const char*, 8> kEighths = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  if (!unicode) {
    const auto full = static_cast<std::size_t>(std::lround(filled));
    return std::string(full, '#') + std::string(width - full, '.');
  }
  const auto eighths = static_cast<std::size_t>(std::lround(8 * filled));
  std::string text;
  for (std::size_t column = 0; column < width; ++column) {
    const std::size_t begin = 8 * column;
    text += eighths >= begin + 8 ? "█" : eighths <= begin ? " " : kEighths[eighths - begin];
  }
  return text;
}

// [begin, begin + length) of each step, over kLaneSteps of them, which look different in turns.
std::string lane(double begin, double length, double step, std::size_t width, bool unicode) {
  const double column = static_cast<double>(kLaneSteps) * step / static_cast<double>(width);
  constexpr std::size_t kIdle = kLaneSteps;
  std::vector<std::size_t> shown(width, kIdle);  // which step
  for (std::size_t of = 0; of < kLaneSteps; ++of) {
    const double from = static_cast<double>(of) * step + begin;
    const auto first = static_cast<std::size_t>(std::lround(from / column));
    const auto end = static_cast<std::size_t>(std::lround((from + length) / column));
    for (std::size_t i = first; i < std::min(end, width); ++i) shown[i] = of;
    // What is shorter than a column is seen, too.
    if (first >= end && length > 0) shown[std::min(first, width - 1)] = of;
  }
  std::string text;
  for (const std::size_t of : shown) {
    if (of == kIdle) {
      text += " ";
    } else if (of % 2 == 0) {
      text += unicode ? "█" : "#";
    } else {
      text += unicode ? "▓" : "=";
    }
  }
  return text;
}

std::string progress_text(const LiveRow& row) {
  if (row.total == 0) return std::to_string(row.done);
  const double share = static_cast<double>(row.done) / static_cast<double>(row.total);
  return std::to_string(row.done) + " of " + std::to_string(row.total) + " (" +
         std::to_string(static_cast<int>(100 * std::min(share, 1.0))) + " %)";
}

std::string eta_text(const LiveRow& row) {
  if (row.done_per_second.value_or(0) <= 0 || row.done >= row.total) return {};
  return "   ETA " +
         duration_text(static_cast<double>(row.total - row.done) / *row.done_per_second);
}

std::string progress_line(const LiveRow& row, const LiveStyle& style) {
  const std::string head = row.device + "  epoch " + std::to_string(row.epoch) + "  ";
  const std::string tail = "  " + progress_text(row) + "   " + count_text(row.steps_per_second) +
                           " steps/s" + eta_text(row);
  const std::size_t taken = columns(head) + columns(tail);
  Line line(style);
  line << head;
  if (row.total > 0 && taken + 4 <= style.width) {
    line.add(bar(static_cast<double>(row.done) / static_cast<double>(row.total),
                 std::min<std::size_t>(style.width - taken, 40), style.unicode),
             kGreen);
  }
  line << tail;
  return line.text();
}

struct Stage {
  const char* name;
  double busy;
  bool limits;
};

std::array<Stage, 3> stages_of(const Stats& stats) {
  const Limit limit = stats.what_if({}).limit;
  const bool known = stats.t_step > 0;
  return {
      {{"reader", stats.reader.busy, known && (limit == Limit::kReaders || limit == Limit::kCpus)},
       {"copier", stats.copier.busy, known && limit == Limit::kLink},
       {"consumer", stats.consumer.busy, known && limit == Limit::kConsumer}}};
}

std::string stages_line(const Stats& stats, const LiveStyle& style) {
  constexpr std::size_t kRest = 55;  // what is no bar
  const std::size_t width =
      std::clamp<std::size_t>(style.width > kRest ? (style.width - kRest) / 3 : 0, 3, 16);
  Line line(style);
  line << "  ";
  for (const Stage& stage : stages_of(stats)) {
    if (line.width() > 2) line << (style.unicode ? " ─► " : " -> ");
    line << stage.name << " ";
    line.add(bar(stage.busy, width, style.unicode), stage.limits ? kYellow : kGreen);
    line << " " << share_text(stage.busy);
    if (stage.limits) line.add(style.unicode ? " ◄" : " <", kYellow);
  }
  return line.text();
}

std::string rates_line(const LiveRow& row, const LiveStyle& style) {
  Line line(style);
  line << "  " << count_text(row.samples_per_second) << " samples/s   " << bandwidth_text(row)
       << "   slots: " << std::to_string(row.filled) << " of "
       << std::to_string(row.stats.pinned_slots) << " filled, " << std::to_string(row.ready)
       << " of " << std::to_string(row.stats.device_slots) << " ready";
  return line.text();
}

// Those that come first are the most wanted.
std::array<std::string, 6> times_of(const Stats& stats) {
  return {"OE " + number_text(stats.overlap_efficiency()),
          "Tstep " + time_text(stats.t_step),
          "Tc " + time_text(stats.t_c),
          "Tx " + time_text(stats.t_x),
          "bubble " + time_text(std::max(stats.t_step - std::max(stats.t_c, stats.t_x), 0.0)),
          "Tread " + time_text(stats.t_read) + " / " + std::to_string(stats.workers)};
}

// As many of them as there is room for.
std::string times_line(const Stats& stats, std::size_t width) {
  std::string line;
  for (const std::string& time : times_of(stats)) {
    if (line.size() + 3 + time.size() > width) break;
    line += (line.empty() ? "  " : "   ") + time;
  }
  return line;
}

// Broken between words, and cut off where it is very long.
void add_sentence(const std::string& sentence, const LiveStyle& style,
                  std::vector<std::string>& lines) {
  constexpr std::size_t kMostLines = 4;
  const std::size_t width = style.width - 2;
  std::string_view rest = sentence;
  for (std::size_t i = 0; i < kMostLines && !rest.empty(); ++i) {
    std::size_t end = rest.size();
    if (end > width) {
      end = rest.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = width;
    }
    lines.push_back("  " + std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  if (!rest.empty()) lines.back().replace(lines.back().size() - 3, 3, "...");
}

// The lanes and figures of one device.
void add_step(const Stats& stats, const LiveStyle& style, std::vector<std::string>& lines) {
  if (stats.t_step <= 0) {
    Line line(style);
    line << "  no step was sampled yet";
    lines.push_back(line.text());
    return;
  }
  const double t_c = std::min(stats.t_c, stats.t_step);
  const double t_x = std::min(stats.t_x, stats.t_step);
  // So much of a copy is beside the work, and it ends that.
  const double hidden = stats.hidden_fraction() * std::min(t_c, t_x);
  const std::size_t width = style.width - 10;
  Line copy(style);
  copy << "  copy    ";
  copy.add(lane(t_c - hidden, t_x, stats.t_step, width, style.unicode), kBlue);
  lines.push_back(copy.text());
  Line compute(style);
  compute << "  compute ";
  compute.add(lane(0, t_c, stats.t_step, width, style.unicode), kGreen);
  lines.push_back(compute.text());
  lines.push_back(times_line(stats, style.width));
  add_sentence(stats.bottleneck(), style, lines);
}

}  // namespace

std::vector<std::string> live_block(std::span<const LiveRow> rows, const LiveStyle& given) {
  LiveStyle style = given;
  style.width = std::max(style.width, kLeast);
  std::vector<std::string> lines;
  if (rows.empty()) return lines;
  const LiveRow* slowest = &rows[0];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].stats.t_step > slowest->stats.t_step) slowest = &rows[i];
    if (i >= kMostRows) continue;
    lines.push_back(progress_line(rows[i], style));
    lines.push_back(stages_line(rows[i].stats, style));
    lines.push_back(rates_line(rows[i], style));
  }
  if (rows.size() > kMostRows) {
    lines.push_back("  and " + std::to_string(rows.size() - kMostRows) + " devices more");
  }
  if (rows.size() > 1) lines.push_back(slowest->device + ", the slowest:");
  add_step(slowest->stats, style, lines);
  return lines;
}

std::string live_line(const LiveRow& row) {
  std::string text = row.device + ": epoch " + std::to_string(row.epoch) + ", " +
                     progress_text(row) + ", " + count_text(row.steps_per_second) + " steps/s, " +
                     count_text(row.samples_per_second) + " samples/s, " + bandwidth_text(row) +
                     eta_text(row);
  if (row.stats.t_step <= 0) return text;
  for (const Stage& stage : stages_of(row.stats)) {
    text += "   " + std::string(stage.name) + " " + percent_text(stage.busy) +
            (stage.limits ? " (limits)" : "");
  }
  for (const std::string& time : times_of(row.stats)) text += "   " + time;
  return text;
}

}  // namespace leat::feeder
