#include "leat/feeder/live/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kLeastColumns = 40;  // narrower lines are cut
constexpr std::size_t kMostDevices = 8;

// Columns that a text takes on a terminal: one for each character, none for a colour.
std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else if ((text[i] & 0xC0) != 0x80) {
      ++count;
    }
  }
  return count;
}

// The first `width` columns of a text without colours.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80 && ++column > width) return text.substr(0, i);
  }
  return text;
}

enum class Colour : char { kGreen = '2', kYellow = '3', kBlue = '4' };

std::string coloured(const std::string& text, Colour colour, const LiveStyle& style) {
  if (!style.colour) return text;
  return "\x1b[3" + std::string(1, static_cast<char>(colour)) + "m" + text + "\x1b[0m";
}

std::string bar(double share, std::size_t width, Colour colour, const LiveStyle& style) {
  static constexpr std::array<const char*, 9> kEighths = {" ", "▏", "▎", "▍", "▌",
                                                          "▋", "▊", "▉", "█"};
  static constexpr std::array<const char*, 2> kWhole = {".", "#"};
  const auto parts = style.unicode ? std::span<const char* const>(kEighths) : kWhole;
  const std::size_t full = parts.size() - 1;
  auto left = static_cast<std::size_t>(
      std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(full * width)));
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t here = std::min(left, full);
    text += parts[here];
    left -= here;
  }
  return coloured(text, colour, style);
}

// Four steps, in each of which something lasts from `begin` on for `length`. Neighbours look
// different. What is shorter than a column is drawn as one.
std::string lane(double begin, double length, double step, Colour colour, const LiveStyle& style) {
  constexpr int kSteps = 4;
  const std::size_t width = style.width - 10;
  const double column = kSteps * step / static_cast<double>(width);
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    // Nearly its middle: half a column is drawn with what ends there.
    const double since = (static_cast<double>(i) + 0.499) * column - begin;
    const double number = std::floor(since / step);
    const double least = length > 0 ? column : 0;
    if (number < 0 || since - number * step >= std::max(length, least)) {
      text += " ";
    } else {
      const bool is_even = std::fmod(number, 2) == 0;
      text += style.unicode ? (is_even ? "█" : "▓") : (is_even ? "#" : "=");
    }
  }
  return coloured(text, colour, style);
}

// "12.3", "4.04 k"; "?" where nothing is known: a 0 would be a figure.
std::string count_text(double count) {
  if (count <= 0) return "?";
  const std::string bytes = bytes_text(count);
  return bytes.substr(0, bytes.find_last_not_of(" B") + 1);
}

std::string steps_text(const LiveRow& row) { return count_text(row.steps_per_second) + " steps/s"; }

std::string bandwidth_text(const LiveRow& row) {
  if (row.steps_per_second <= 0) return "? B/s";
  return bytes_text(row.steps_per_second * row.stats.batch_bytes) + "/s";
}

// "ETA 5:02", "ETA 1:00:07"; nothing where that is not known, or nothing is left.
std::string eta_text(const LiveRow& row) {
  if (row.done_per_second <= 0 || row.done >= row.total) return {};
  const double left = static_cast<double>(row.total - row.done) / row.done_per_second;
  const auto seconds = static_cast<unsigned long long>(std::llround(std::min(left, 1e9)));
  const std::string hours = seconds >= 3600 ? std::to_string(seconds / 3600) + ":" : "";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), hours.empty() ? "%llu:%02llu" : "%02llu:%02llu",
                seconds / 60 % 60, seconds % 60);
  return "ETA " + hours + text.data();
}

double share_done(const LiveRow& row) {
  return std::min(static_cast<double>(row.done) / static_cast<double>(row.total), 1.0);
}

std::string percent_done(const LiveRow& row) {
  if (row.total == 0) return std::to_string(row.done);
  return std::to_string(static_cast<int>(100 * share_done(row))) + " %";
}

std::string progress_text(const LiveRow& row) {
  if (row.total == 0) return percent_done(row);
  return std::to_string(row.done) + " of " + std::to_string(row.total) + " (" + percent_done(row) +
         ")";
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
  const std::string head = row.device + "  epoch " + std::to_string(row.epoch) + "  ";
  const std::string progress = progress_text(row);
  const bool fits = columns(head + progress) <= style.width;
  const std::array<std::string, 2> items = {steps_text(row), eta_text(row)};
  std::string line = with_items(head + (fits ? progress : percent_done(row)), items, style.width);
  const std::size_t taken = columns(line) + 2;
  if (row.total > 0 && taken + 4 <= style.width) {
    const std::size_t width = std::min<std::size_t>(style.width - taken, 40);
    line.insert(head.size(), bar(share_done(row), width, Colour::kGreen, style) + "  ");
  }
  return line;
}

struct StageText {
  const char* name;
  const StageShares& shares;
  bool limits;
};

std::array<StageText, 3> stages_of(const Stats& stats) {
  const Limit limit = stats.what_if({}).limit;
  const bool known = stats.is_measured();
  return {{{"reader", stats.reader, known && (limit == Limit::kReaders || limit == Limit::kCpus)},
           {"copier", stats.copier, known && limit == Limit::kLink},
           {"consumer", stats.consumer, known && limit == Limit::kConsumer}}};
}

std::string stages_line(const Stats& stats, const LiveStyle& style) {
  const std::array<StageText, 3> stages = stages_of(stats);
  const std::size_t rest = std::ranges::any_of(stages, &StageText::limits) ? 53 : 51;
  const std::size_t bars =
      style.width < rest + 9 ? 0 : std::clamp<std::size_t>((style.width - 55) / 3, 3, 16);
  std::string line;
  for (const StageText& stage : stages) {
    std::string text = line.empty() ? "  " : style.unicode ? " ─► " : " -> ";
    text += stage.name + std::string(" ");
    const Colour colour = stage.limits ? Colour::kYellow : Colour::kGreen;
    if (bars > 0) text += bar(stage.shares.busy, bars, colour, style) + " ";
    std::array<char, 16> busy{"    ?"};
    if (stage.shares.is_known()) {
      std::snprintf(busy.data(), busy.size(), "%3.0f %%", 100 * stage.shares.busy);
    }
    text += busy.data();
    if (stage.limits) text += coloured(style.unicode ? " ◄" : " <", Colour::kYellow, style);
    if (columns(line) + columns(text) > style.width) break;
    line += text;
  }
  return line;
}

std::string rates_line(const LiveRow& row, const LiveStyle& style) {
  const std::array<std::string, 2> items = {
      bandwidth_text(row), "slots: " + std::to_string(row.filled) + " of " +
                               std::to_string(row.stats.pinned_slots) + " filled, " +
                               std::to_string(row.ready) + " of " +
                               std::to_string(row.stats.device_slots) + " ready"};
  return with_items("  " + count_text(row.samples_per_second) + " samples/s", items, style.width);
}

// The most wanted first.
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

// Broken between words.
std::vector<std::string> sentence_lines(std::string_view sentence, std::size_t width) {
  std::vector<std::string> lines;
  while (!sentence.empty()) {
    std::size_t end = sentence.size();
    if (end > width - 2) end = std::min(sentence.rfind(' ', width - 2), end);
    lines.push_back("  " + std::string(sentence.substr(0, end)));
    sentence.remove_prefix(std::min(sentence.size(), end + 1));
  }
  return lines;
}

// The lanes and times of a step.
std::vector<std::string> step_lines(const Stats& stats, const LiveStyle& style) {
  if (stats.t_step <= 0) return {"  no step was sampled yet"};
  const double t_c = std::min(stats.t_c, stats.t_step);
  const double t_x = std::min(stats.t_x, stats.t_step);
  // So much of a copy is beside the work, at its end.
  const double hidden = stats.hidden_fraction() * std::min(t_c, t_x);
  const std::array<std::string, 6> times = times_of(stats);
  return {
      "  copy    " +
          (stats.is_measured() ? lane(t_c - hidden, t_x, stats.t_step, Colour::kBlue, style) : "?"),
      "  compute " + lane(0, t_c, stats.t_step, Colour::kGreen, style),
      with_items("  " + times[0], std::span(times).subspan(1), style.width)};
}

}  // namespace

std::vector<std::string> live_block(std::span<const LiveRow> rows, const LiveStyle& style) {
  if (rows.empty()) return {};
  LiveStyle wide = style;
  wide.width = std::max(style.width, kLeastColumns);
  wide.colour = style.colour && style.width >= kLeastColumns;
  const auto slowest =
      std::ranges::max_element(rows, {}, [](const LiveRow& row) { return row.stats.t_step; });
  std::vector<std::string> tail = step_lines(slowest->stats, wide);
  if (rows.size() > 1) tail.insert(tail.begin(), slowest->device + ", the slowest:");
  if (slowest->stats.t_step > 0) {
    const auto sentence = sentence_lines(slowest->stats.bottleneck(), wide.width);
    tail.insert(tail.end(), sentence.begin(), sentence.end());
    if (tail.size() + 3 > style.height) tail.resize(tail.size() - sentence.size());
  }
  const std::size_t room = (style.height - std::min(style.height, tail.size() + 1)) / 3;
  const std::size_t count = std::clamp<std::size_t>(std::min(room, rows.size()), 1, kMostDevices);
  std::vector<std::string> lines;
  for (std::size_t left = count; const LiveRow& row : rows) {
    // The last place is for the slowest, unless it has been shown.
    if (left == 0 || (left == 1 && &row < &*slowest)) continue;
    --left;
    lines.push_back(progress_line(row, wide));
    lines.push_back(stages_line(row.stats, wide));
    lines.push_back(rates_line(row, wide));
  }
  if (count < rows.size()) {
    lines.push_back("  and " + std::to_string(rows.size() - count) + " devices more");
  }
  lines.insert(lines.end(), tail.begin(), tail.end());
  if (lines.size() > style.height) lines.resize(style.height);
  if (style.width < kLeastColumns) {
    for (std::string& line : lines) line = cut(line, style.width);
  }
  return lines;
}

std::string live_line(const LiveRow& row) {
  std::string text = row.device + ": epoch " + std::to_string(row.epoch) + ", " +
                     progress_text(row) + ", " + steps_text(row) + ", " +
                     count_text(row.samples_per_second) + " samples/s, " + bandwidth_text(row);
  if (const std::string eta = eta_text(row); !eta.empty()) text += "   " + eta;
  if (row.stats.t_step <= 0) return text;
  for (const StageText& stage : stages_of(row.stats)) {
    text += std::string("   ") + stage.name + " " +
            (stage.shares.is_known() ? percent_text(stage.shares.busy) : "?") +
            (stage.limits ? " (limits)" : "");
  }
  for (const std::string& time : times_of(row.stats)) text += "   " + time;
  return text;
}

}  // namespace leat::feeder
