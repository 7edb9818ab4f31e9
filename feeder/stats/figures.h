// How figures are written: the same in every table, sentence and report.
#pragma once

#include <string>

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

}  // namespace leat::feeder
