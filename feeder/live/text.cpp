#include "leat/feeder/live/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "leat/feeder/live/draw.h"
#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kLeastColumns = 40;  // columns
constexpr std::size_t kMostRows = 8;       // devices

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

// Nothing is known: "?", where a 0 would be a figure.
std::string count_text(const std::optional<double>& count) {
  return count.has_value() ? count_text(*count) : "?";
}

// Bytes a second.
std::string bandwidth_text(const LiveRow& row) {
  if (!row.steps_per_second.has_value()) return "? B/s";
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

std::string busy_text(std::optional<double> share) {
  if (!share.has_value()) return "    ?";
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%3.0f %%", 100 * *share);
  return text.data();
}

double percent_of(const LiveRow& row) {
  return std::min(100 * static_cast<double>(row.done) / static_cast<double>(row.total), 100.0);
}

// Progress, in short.
std::string share_text(const LiveRow& row) {
  if (row.total == 0) return std::to_string(row.done);
  return std::to_string(static_cast<int>(percent_of(row))) + " %";
}

std::string progress_text(const LiveRow& row) {
  if (row.total == 0) return share_text(row);
  return std::to_string(row.done) + " of " + std::to_string(row.total) + " (" + share_text(row) +
         ")";
}

std::string steps_text(const LiveRow& row) { return count_text(row.steps_per_second) + " steps/s"; }

// Nothing where that is not known, or nothing is left.
std::string eta_text(const LiveRow& row) {
  if (row.done_per_second.value_or(0) <= 0 || row.done >= row.total) return {};
  return "ETA " + duration_text(static_cast<double>(row.total - row.done) / *row.done_per_second);
}

// As many of `items` as there is room for behind `line`, each whole: a figure that is cut reads as
// another one.
std::string with_items(std::string line, std::span<const std::string> items, std::size_t width) {
  std::size_t taken = columns(line);
  for (const std::string& item : items) {
    if (item.empty()) continue;
    taken += 3 + columns(item);
    if (taken > width) break;
    line += "   " + item;
  }
  return line;
}

std::string progress_line(const LiveRow& row, const LiveStyle& style) {
  const std::string head = row.device + "  epoch " + std::to_string(row.epoch);
  const std::array<std::string, 2> items = {steps_text(row), eta_text(row)};
  std::string progress = "  " + progress_text(row);
  if (columns(head) + columns(progress) > style.width) progress = "  " + share_text(row);
  const std::string tail =
      with_items(progress, items, style.width - std::min(columns(head), style.width));
  const std::size_t taken = columns(head) + 2 + columns(tail);
  Line line(style);
  line << head;
  if (row.total > 0 && taken + 4 <= style.width) {
    line << "  ";
    line.add(
        bar(percent_of(row) / 100, std::min<std::size_t>(style.width - taken, 40), style.unicode),
        kGreen);
  }
  line << tail;
  return line.text();
}

struct Stage {
  const char* name;
  std::optional<double> busy;
  bool limits;
};

std::array<Stage, 3> stages_of(const Stats& stats) {
  const Limit limit = stats.what_if({}).limit;
  const bool known = stats.is_measured();
  const auto busy = [](const StageShares& shares) {
    return shares.is_known() ? std::optional(shares.busy) : std::nullopt;
  };
  return {
      {{"reader", busy(stats.reader), known && (limit == Limit::kReaders || limit == Limit::kCpus)},
       {"copier", busy(stats.copier), known && limit == Limit::kLink},
       {"consumer", busy(stats.consumer), known && limit == Limit::kConsumer}}};
}

// Bars of so many columns; 0: none.
Line stages_line(const Stats& stats, const LiveStyle& style, std::size_t bars) {
  Line line(style);
  line << "  ";
  for (const Stage& stage : stages_of(stats)) {
    Line one(style);
    if (line.width() > 2) one << (style.unicode ? " ─► " : " -> ");
    one << stage.name << " ";
    if (bars > 0) {
      one.add(bar(stage.busy.value_or(0), bars, style.unicode), stage.limits ? kYellow : kGreen);
      one << " ";
    }
    one << busy_text(stage.busy);
    if (stage.limits) one.add(style.unicode ? " ◄" : " <", kYellow);
    if (bars == 0 && line.width() + one.width() > style.width) break;
    line << one;
  }
  return line;
}

std::string stages_line(const Stats& stats, const LiveStyle& style) {
  constexpr std::size_t kRest = 55;  // what is no bar
  const std::size_t bars =
      std::clamp<std::size_t>(style.width > kRest ? (style.width - kRest) / 3 : 0, 3, 16);
  const Line line = stages_line(stats, style, bars);
  return (line.width() <= style.width ? line : stages_line(stats, style, 0)).text();
}

std::string rates_line(const LiveRow& row, const LiveStyle& style) {
  const std::array<std::string, 2> items = {
      bandwidth_text(row), "slots: " + std::to_string(row.filled) + " of " +
                               std::to_string(row.stats.pinned_slots) + " filled, " +
                               std::to_string(row.ready) + " of " +
                               std::to_string(row.stats.device_slots) + " ready"};
  return with_items("  " + count_text(row.samples_per_second) + " samples/s", items, style.width);
}

// Those that come first are the most wanted.
std::array<std::string, 6> times_of(const Stats& stats) {
  const double bubble = std::max(stats.t_step - std::max(stats.t_c, stats.t_x), 0.0);
  const bool known = stats.is_measured();  // else no copy was timed
  return {"OE " + (known ? number_text(stats.overlap_efficiency()) : "?"),
          "Tstep " + time_text(stats.t_step),
          "Tc " + time_text(stats.t_c),
          "Tx " + (known ? time_text(stats.t_x) : "?"),
          "bubble " + (known ? time_text(bubble) : "?"),
          "Tread " + time_text(stats.t_read) + " / " + std::to_string(stats.workers)};
}

std::string times_line(const Stats& stats, std::size_t width) {
  const std::array<std::string, 6> times = times_of(stats);
  return with_items("  " + times[0], std::span(times).subspan(1), width);
}

// Broken between words, and cut off where it is very long.
std::vector<std::string> sentence_lines(const std::string& sentence, std::size_t width) {
  constexpr std::size_t kMostLines = 4;
  width -= 2;
  std::vector<std::string> lines;
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
  return lines;
}

// What is left out last where lines are few.
enum class Wanted : std::uint8_t { kTimes, kStages, kProgress, kLanes, kRates, kTitle, kSentence };

// The lines of a block, in their order.
class Lines {
 public:
  void add(std::string text, Wanted wanted) { lines_.push_back({std::move(text), wanted}); }
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size(); }
  // The kinds that are wanted least go first, each as a whole: half a sentence is none.
  std::vector<std::string> within(std::size_t height) {
    while (lines_.size() > height && !lines_.empty()) {
      const Wanted least = std::ranges::max_element(lines_, {}, &One::wanted)->wanted;
      std::erase_if(lines_, [&](const One& one) { return one.wanted == least; });
    }
    std::vector<std::string> texts;
    for (One& one : lines_) texts.push_back(std::move(one.text));
    return texts;
  }

 private:
  struct One {
    std::string text;
    Wanted wanted;
  };
  std::vector<One> lines_;
};

// The lanes and figures of one device.
void add_step(const Stats& stats, const LiveStyle& style, Lines& lines) {
  if (stats.t_step <= 0) {
    lines.add("  no step was sampled yet", Wanted::kTimes);
    return;
  }
  const double t_c = std::min(stats.t_c, stats.t_step);
  const double t_x = std::min(stats.t_x, stats.t_step);
  // So much of a copy is beside the work, and it ends that.
  const double hidden = stats.hidden_fraction() * std::min(t_c, t_x);
  const std::size_t width = style.width - 10;
  Line copy(style);
  copy << "  copy    ";
  if (stats.is_measured()) {
    copy.add(lane(t_c - hidden, t_x, stats.t_step, width, style.unicode), kBlue);
  } else {
    copy << "?";
  }
  lines.add(copy.text(), Wanted::kLanes);
  Line compute(style);
  compute << "  compute ";
  compute.add(lane(0, t_c, stats.t_step, width, style.unicode), kGreen);
  lines.add(compute.text(), Wanted::kLanes);
  lines.add(times_line(stats, style.width), Wanted::kTimes);
  for (std::string& line : sentence_lines(stats.bottleneck(), style.width)) {
    lines.add(std::move(line), Wanted::kSentence);
  }
}

// The first `count` rows, or the slowest and the first of the others.
Lines block_of(std::span<const LiveRow> rows, std::size_t slowest, std::size_t count,
               const LiveStyle& style) {
  Lines lines;
  std::size_t left = count;
  for (std::size_t i = 0; i < rows.size() && left > 0; ++i) {
    if (i != slowest && left == 1 && i < slowest) continue;  // the last is for that
    --left;
    lines.add(progress_line(rows[i], style), Wanted::kProgress);
    lines.add(stages_line(rows[i].stats, style), Wanted::kStages);
    lines.add(rates_line(rows[i], style), Wanted::kRates);
  }
  if (rows.size() > count) {
    lines.add("  and " + std::to_string(rows.size() - count) + " devices more", Wanted::kTitle);
  }
  if (rows.size() > 1) {
    lines.add(cut(rows[slowest].device + ", the slowest:", style.width), Wanted::kTitle);
  }
  add_step(rows[slowest].stats, style, lines);
  return lines;
}

// Where there is no room for a block.
std::string short_line(const LiveRow& row, std::size_t width) {
  const std::array<std::string, 4> items = {
      share_text(row), steps_text(row), eta_text(row),
      row.stats.is_measured() ? times_of(row.stats)[0] : std::string()};
  std::string line;
  for (const std::string& item : items) {
    if (item.empty()) continue;
    const std::string_view between = line.empty() ? "" : "  ";
    if (line.size() + between.size() + item.size() > width) break;
    line.append(between).append(item);
  }
  return line;
}

}  // namespace

std::vector<std::string> live_block(std::span<const LiveRow> rows, const LiveStyle& style) {
  if (rows.empty()) return {};
  std::size_t slowest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].stats.t_step > rows[slowest].stats.t_step) slowest = i;
  }
  if (style.width < kLeastColumns || style.height == 0)
    return {short_line(rows[slowest], style.width)};
  std::size_t count = std::min(rows.size(), kMostRows);
  Lines lines = block_of(rows, slowest, count, style);
  while (lines.size() > style.height && count > 1) {
    lines = block_of(rows, slowest, --count, style);
  }
  return lines.within(style.height);
}

std::string live_line(const LiveRow& row) {
  std::string text = row.device + ": epoch " + std::to_string(row.epoch) + ", " +
                     progress_text(row) + ", " + steps_text(row) + ", " +
                     count_text(row.samples_per_second) + " samples/s, " + bandwidth_text(row);
  if (const std::string eta = eta_text(row); !eta.empty()) text += "   " + eta;
  if (row.stats.t_step <= 0) return text;
  for (const Stage& stage : stages_of(row.stats)) {
    text += "   " + std::string(stage.name) + " " + (stage.busy ? percent_text(*stage.busy) : "?") +
            (stage.limits ? " (limits)" : "");
  }
  for (const std::string& time : times_of(row.stats)) text += "   " + time;
  return text;
}

}  // namespace leat::feeder
