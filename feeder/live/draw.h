// What the lines of a live view are made of: columns, colours, bars, lanes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "leat/feeder/live/text.h"

namespace leat::feeder {

/// That a text takes on a terminal: one for each character that a view writes.
[[nodiscard]] std::size_t columns(std::string_view text);
/// Its first `width` columns.
[[nodiscard]] std::string cut(const std::string& text, std::size_t width);

/// Colours of ECMA-48's SGR: 3x.
inline constexpr char kGreen = '2';
inline constexpr char kYellow = '3';
inline constexpr char kBlue = '4';

/// A line whose parts may have colours, which take no column.
class Line {
 public:
  explicit Line(const LiveStyle& style) : style_(&style) {}
  Line& operator<<(std::string_view text);
  Line& operator<<(const Line& line);
  void add(std::string_view text, char colour);
  [[nodiscard]] std::size_t width() const { return columns(plain_); }
  /// Cut to the style's width; no colour is left on.
  [[nodiscard]] std::string text() const;

 private:
  const LiveStyle* style_;
  std::string plain_;
  std::string marks_;  // a colour for each byte; 0: none
};

/// A share of `width` columns, to an eighth of one.
[[nodiscard]] std::string bar(double share, std::size_t width, bool unicode);
/// [begin, begin + length) of each of four steps, which look different in turns.
[[nodiscard]] std::string lane(double begin, double length, double step, std::size_t width,
                               bool unicode);

}  // namespace leat::feeder
