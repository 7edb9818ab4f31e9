#include "leat/feeder/live/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

// A line is made of items, the most wanted first. The block and the plain line have the same ones.
using Items = std::vector<std::string>;

constexpr std::size_t kLeastColumns = 40;
constexpr const char* kGap = "   ";

constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kBlue = "\x1b[34m";

std::string coloured(const std::string& text, const char* colour, const LiveStyle& style) {
  return style.colour ? colour + text + "\x1b[0m" : text;
}

// As many items as there is room for, each whole: a figure that is cut reads as another one.
std::string join(const Items& items, const std::string& between,
                 std::size_t width = std::string::npos) {
  std::string line;
  for (const std::string& item : items) {
    std::string longer = line;
    if (!line.empty()) longer += between;
    longer += item;
    if (columns(longer) > width) break;
    line = std::move(longer);
  }
  return line;
}

std::string bar(double share, std::size_t width, const char* colour, const LiveStyle& style) {
  using Eighths = std::array<const char*, 9>;
  static constexpr Eighths kUnicode = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  static constexpr Eighths kAscii = {".", ".", ".", ".", "#", "#", "#", "#", "#"};
  const Eighths& parts = style.unicode ? kUnicode : kAscii;
  const auto filled = static_cast<std::size_t>(
      std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(8 * width)));
  std::string text;
  for (std::size_t i = 0; i < 8 * width; i += 8) text += parts[std::clamp(filled, i, i + 8) - i];
  return coloured(text, colour, style);
}

// Four steps, in each of which something lasts from `begin` on for `length`. Neighbours look
// different. What is shorter than a column is drawn as one.
std::string lane(double begin, double length, double step, const char* colour,
                 const LiveStyle& style) {
  const std::array<const char*, 2> marks = {style.unicode ? "█" : "#", style.unicode ? "▓" : "="};
  const std::size_t width = style.width - 10;
  const double column = 4 * step / static_cast<double>(width);
  std::string text;
  for (std::size_t i = 0; i < width; ++i) {
    // Nearly the column's middle: half a column is drawn with what ends there.
    const double since = (static_cast<double>(i) + 0.499) * column - begin;
    const double number = std::floor(since / step);
    const bool is_on = number >= 0 && since - number * step < std::max(length, column);
    text += is_on ? marks[static_cast<std::size_t>(number) % 2] : " ";
  }
  return coloured(text, colour, style);
}

std::string of_text(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(part) + " of " + std::to_string(whole);
}

double share_done(const LiveRow& row) {
  if (row.total == 0) return 0;
  return std::min(static_cast<double>(row.done) / static_cast<double>(row.total), 1.0);
}

Items progress_of(const LiveRow& row) {
  const auto percent = static_cast<int>(100 * share_done(row));
  Items items = {row.device, "epoch " + std::to_string(row.epoch),
                 of_text(row.done, row.total) + " (" + std::to_string(percent) + " %)",
                 count_text(row.steps_per_second, "steps/s")};
  if (row.done_per_second > 0 && row.done < row.total) {
    const double left = static_cast<double>(row.total - row.done) / row.done_per_second;
    const auto seconds = std::llround(std::min(left, 1e9));
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "ETA %lld:%02lld:%02lld", seconds / 3600,
                  seconds / 60 % 60, seconds % 60);
    items.emplace_back(text.data());
  }
  return items;
}

Items rates_of(const LiveRow& row) {
  const double bytes = row.steps_per_second * row.stats.batch_bytes;
  return {count_text(row.samples_per_second, "samples/s"),
          (bytes > 0 ? bytes_text(bytes) : "? B") + "/s",
          "slots: " + of_text(row.filled, row.stats.pinned_slots) + " filled, " +
              of_text(row.ready, row.stats.device_slots) + " ready"};
}

// The busy share of each stage; on a terminal with a bar, if it has at least three columns. If not
// all stages fit, the one that limits.
Items stages_of(const Stats& stats, const LiveStyle& style) {
  const bool has_bars = style.is_terminal && style.width >= 64;
  const std::string most = stats.t_c_is_upper_bound() ? "<= " : "";
  const std::size_t words = 55 + most.size();
  const std::size_t bars = has_bars ? std::min<std::size_t>((style.width - words) / 3, 16) : 0;
  const char* const mark = !style.is_terminal ? " (limits)" : style.unicode ? " ◄" : " <";
  const Limit limit = stats.what_if({}).limit;
  const auto stage = [&](std::string name, const StageShares& shares, bool is_limit,
                         const std::string& at_most = "") {
    const bool is_marked = is_limit && stats.is_measured();
    std::array<char, 16> busy{"    ?"};
    if (shares.is_known()) std::snprintf(busy.data(), busy.size(), "%3.0f %%", 100 * shares.busy);
    if (bars > 0) name += " " + bar(shares.busy, bars, is_marked ? kYellow : kGreen, style);
    return name + " " + at_most + busy.data() + (is_marked ? coloured(mark, kYellow, style) : "");
  };
  const std::array limits = {limit == Limit::kReaders || limit == Limit::kCpus,
                             limit == Limit::kLink, limit == Limit::kConsumer};
  Items items = {stage("reader", stats.reader, limits[0]), stage("copier", stats.copier, limits[1]),
                 stage("consumer", stats.consumer, limits[2], most)};
  const std::size_t which =
      static_cast<std::size_t>(std::ranges::find(limits, true) - limits.begin());
  const bool all_fit = !style.is_terminal || columns(join(items, " -> ")) + 2 <= style.width;
  return all_fit || which == items.size() || !stats.is_measured() ? items : Items{items[which]};
}

Items times_of(const Stats& stats) {
  const bool has_steps = stats.t_step > 0;
  const bool has_copies = stats.is_measured();
  const auto known = [](bool is_known, const std::string& text) { return is_known ? text : "?"; };
  const double bubble = std::max(stats.t_step - std::max(stats.t_c, stats.t_x), 0.0);
  const bool is_bound = stats.t_c_is_upper_bound();
  const bool is_longer = is_bound && stats.t_c > stats.t_x;
  Items items = {
      "OE " + known(has_copies, (is_longer ? "<= " : "") + number_text(stats.overlap_efficiency())),
      "Tstep " + known(has_steps, time_text(stats.t_step)),
      "Tc " + known(has_steps, (is_bound ? "<= " : "") + time_text(stats.t_c)),
      "Tx " + known(has_copies, time_text(stats.t_x)),
      "bubble " + known(has_copies, (is_longer ? ">= " : "") + time_text(bubble)),
      "Tread " + known(has_steps, time_text(stats.t_read) + " / " + std::to_string(stats.workers))};
  if (has_copies && !why_no_efficiency(stats.t_c, stats.t_x, stats.t_step).empty()) {
    items.erase(items.begin() + 4);  // the bubble
    items.erase(items.begin());      // OE
  }
  return items;
}

// Progress, with a bar in what room is left; stages; rates.
std::vector<std::string> device_lines(const LiveRow& row, const LiveStyle& style) {
  Items progress = progress_of(row);
  const std::size_t taken = columns(join(progress, kGap, style.width) + kGap);
  if (taken + 4 <= style.width) {
    const std::size_t width = std::min<std::size_t>(style.width - taken, 40);
    progress.insert(progress.begin() + 2, bar(share_done(row), width, kGreen, style));
  }
  const char* const arrow = style.unicode ? " ─► " : " -> ";
  return {join(progress, kGap, style.width),
          "  " + join(stages_of(row.stats, style), arrow, style.width - 2),
          "  " + join(rates_of(row), kGap, style.width - 2)};
}

// The sentence, and the lanes and times of a step.
std::vector<std::string> step_lines(const Stats& stats, const LiveStyle& style) {
  const double step = stats.t_step;
  const double t_c = std::min(stats.t_c, step);
  const double t_x = std::min(stats.t_x, step);
  // So much of a copy is beside the work, at its end.
  const double hidden = stats.hidden_fraction() * std::min(t_c, t_x);
  std::vector<std::string> lines = wrapped(stats.bottleneck(), "  ", style.width);
  lines.push_back("  copy    " + (stats.is_measured() ? lane(t_c - hidden, t_x, step, kBlue, style)
                                                      : std::string("?")));
  lines.push_back("  compute " + (step > 0 ? lane(0, t_c, step, kGreen, style) : std::string("?")));
  lines.push_back("  " + join(times_of(stats), kGap, style.width - 2));
  return lines;
}

std::string line_of(const LiveRow& row) {
  return join(progress_of(row), kGap) + kGap + join(rates_of(row), kGap) + kGap +
         join(stages_of(row.stats, {.is_terminal = false}), kGap) + kGap +
         join(times_of(row.stats), kGap);
}

}  // namespace

std::vector<std::string> live_text(std::span<const LiveRow> rows, const LiveStyle& style) {
  std::vector<std::string> lines;
  if (!style.is_terminal) std::ranges::transform(rows, std::back_inserter(lines), line_of);
  if (!style.is_terminal || rows.empty()) return lines;
  if (style.width < kLeastColumns) {
    Items items = progress_of(rows.front());
    items.erase(items.begin(), items.begin() + 2);  // the name and the epoch
    if (style.height > 0) lines.push_back(join(items, kGap, style.width));
    return lines;
  }
  const auto slowest =
      std::ranges::max_element(rows, {}, [](const LiveRow& row) { return row.stats.t_step; });
  std::vector<std::string> step = step_lines(slowest->stats, style);
  if (rows.size() > 1) step.insert(step.begin(), slowest->device + ", the slowest:");
  // Below the devices is a line more if there is no room for all of them.
  const std::size_t room = (style.height - std::min(style.height, step.size() + 1)) / 3;
  const std::size_t count = std::clamp<std::size_t>(room, 1, rows.size());
  for (std::size_t i = 0; i < count; ++i) {
    // The last place is for the slowest, unless its turn has been.
    const bool is_slowest = i + 1 == count && static_cast<std::size_t>(slowest - rows.begin()) > i;
    std::ranges::copy(device_lines(is_slowest ? *slowest : rows[i], style),
                      std::back_inserter(lines));
  }
  const std::size_t others = rows.size() - count;
  if (others > 0) lines.push_back("  and " + std::to_string(others) + " more");
  std::ranges::copy(step, std::back_inserter(lines));
  lines.resize(std::min(lines.size(), style.height));
  return lines;
}

LiveView::Text live_text(const Live& live, LiveSource source) {
  const auto rows = std::make_shared<LiveRows>(live, std::move(source));
  return [rows](const LiveStyle& style) { return live_text(rows->update(), style); };
}

}  // namespace leat::feeder
