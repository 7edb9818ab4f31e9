// Reads what `nsys export --type sqlite` writes of Nsight Systems' reports.
#pragma once

#include <filesystem>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Returns whether a regular file begins as a database of SQLite does. False for what cannot be
/// read.
[[nodiscard]] bool is_sqlite(const std::filesystem::path& file);

/// Reads kernels, copies, memsets, whole CUDA graphs, calls and NVTX ranges. Tables that the file
/// does not have are empty. Times are the file's; events without one, with a negative one or with
/// an end before the start are dropped and counted.
///
/// The file is opened for reading alone, and nothing in it is run: views, virtual tables and
/// computed columns are refused. Throws Unreadable: a damaged file; a table that is no table; a
/// column that is missing or of another type, with table, column and row; Leat without SQLite.
[[nodiscard]] Trace read_nsight(const std::filesystem::path& file, const Rules& rules);

}  // namespace overlap::trace
