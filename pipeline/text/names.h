// The names of actions in CSV and in grids.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// By Op: torch's names.
inline constexpr std::array<std::string_view, 14> kCsvNames = {"F",           "B",
                                                               "I",           "W",
                                                               "SEND_F",      "RECV_F",
                                                               "SEND_B",      "RECV_B",
                                                               "WAIT_SEND_F", "WAIT_SEND_B",
                                                               "UNSHARD",     "RESHARD",
                                                               "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
/// By Op: ONNX Runtime's, and more like them.
inline constexpr std::array<std::string_view, 14> kGridNames = {
    "FW", "BW", "IG", "WG", "FS", "FR", "BS", "BR", "SF", "SB", "US", "RS", "RG", "RW"};
/// Torch's name of a pair.
inline constexpr std::string_view kPairName = "OVERLAP_F_B";

/// The action with that name.
[[nodiscard]] inline std::optional<Op> op_named(const std::array<std::string_view, 14>& names,
                                                std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Op>(found - names.begin());
}

}  // namespace leat::pipeline
