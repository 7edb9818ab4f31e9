#include "leat/feeder/live/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace leat::feeder {
namespace {

constexpr std::size_t kLaneSteps = 4;

}  // namespace

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

Line& Line::operator<<(std::string_view text) {
  add(text, 0);
  return *this;
}

Line& Line::operator<<(const Line& line) {
  plain_ += line.plain_;
  marks_ += line.marks_;
  return *this;
}

void Line::add(std::string_view text, char colour) {
  plain_ += text;
  marks_.resize(plain_.size(), colour);
}

std::string Line::text() const {
  std::string shown = cut(plain_, style_->width);
  if (!style_->colour) return shown;
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

}  // namespace leat::feeder
