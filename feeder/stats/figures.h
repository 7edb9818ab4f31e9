// How figures are written: the same in every table, sentence and report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace leat::feeder {

/// "12.3 us": three significant digits in the unit that fits.
[[nodiscard]] std::string time_text(double seconds);
/// "64.0 MB": three significant digits in the unit that fits; a MB is 1e6 bytes.
[[nodiscard]] std::string bytes_text(double bytes);
/// "12.3 steps", "4.04 k steps"; "? steps" for 0, where nothing is known: a 0 would be a figure.
[[nodiscard]] std::string count_text(double count, const char* unit);
/// "0.995".
[[nodiscard]] std::string number_text(double value);
/// "99.5 %" for a share of 0.995.
[[nodiscard]] std::string percent_text(double share);

/// The lines of `text`, each begun by `indent` and at most `width` characters long. Words are not
/// cut.
[[nodiscard]] std::vector<std::string> wrapped(const std::string& text, const std::string& indent,
                                               std::size_t width);
/// The same as one text, 80 characters wide, in which every line has its end.
[[nodiscard]] std::string paragraph(const std::string& text);

/// A part of the step that is smaller says nothing of the whole: it is within what steps differ by.
constexpr double kLittle = 0.05;
/// The rest of the step is then no more than other work on the machine takes.
constexpr double kNearlyAll = 0.9;
/// Why max(Tc, Tx) / Tstep says nothing about these times: "Overlap can save at most Tx, 0.4 % of
/// the step ...". Empty if it says something: where the shorter of Tc and Tx is at least kLittle of
/// the longer one, or the longer one less than kNearlyAll of the step.
[[nodiscard]] std::string why_no_efficiency(double t_c, double t_x, double t_step);

/// Whether the environment's locale is a UTF-8 one: as setlocale() would find out, whether the
/// program calls it or not.
[[nodiscard]] bool is_utf8();

}  // namespace leat::feeder
