// The figures in words.
#pragma once

#include <string>
#include <string_view>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

struct DeviceReport;

/// Returns what holds the mean step back, and what to change, in some sentences.
[[nodiscard]] std::string verdict(const DeviceReport& report);
/// Returns the bytes per second of the link between the host and a device of that name, one way, by
/// its data sheet; 0: not known.
[[nodiscard]] double link_of(std::string_view device) noexcept;
/// "77.2 ms", "38.2 us".
[[nodiscard]] std::string time_text(double nanoseconds);
/// "12.3 %"
[[nodiscard]] std::string percent_text(double part);

}  // namespace overlap::trace
