// Reads the Trace Event Format: the PyTorch profiler's .json and .json.gz, and Leat's own.
#pragma once

#include <filesystem>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Reads a trace file. With `partial`, what comes before a fault is kept, and Trace::partial tells
/// the fault; without an op before it, and without `partial`, it is thrown: Unreadable, with the
/// byte.
[[nodiscard]] Trace read_events(const std::filesystem::path& file, const Rules& rules,
                                bool partial);

}  // namespace overlap::trace
