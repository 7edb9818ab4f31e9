// Schedules as text, to write and to read.
//
// CSV is what torch.distributed.pipelining writes and reads, byte for byte: one line for each rank
// that ends with CRLF, cells between commas, an empty cell is idle.
//
//   0F0,0SEND_F0,0F1,,0RECV_B0,0B0          2F0: stage 2, action F, microbatch 0
//   1RECV_F0,1F0,1B0,(1F1;3B0)OVERLAP_F_B   two actions, computed one after the other
//   2RECV_F1+2SEND_F0                       Leat's: actions that start together
//
// A grid is for people, one line for each rank, blanks between cells and `.` for an idle one. It
// has ONNX Runtime's names, without the stage:
//
//   FW00 FS00 FW01 .         FW FS FR    forward, its Send, its Recv
//   .    FR00 FW00 BW00      BW BS BR    backward, its Send, its Recv
//
// and IG, WG for the gradients of input and weights, SF, SB for WAIT_SEND_F and WAIT_SEND_B, US,
// RS, RG, RW for UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD. Actions of a cell are in
// alphabetical order. A grid with one stage for each rank can be read: line s is stage s, on rank
// s. Where ranks have several stages, the stage is in front (2FW00).
//
// Everything here is thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// The text is not a schedule. what() has the file and up to kMostFindings lines.
class ScheduleError : public Error {
 public:
  /// For parse() and whoever refuses a schedule.
  explicit ScheduleError(std::vector<Finding> findings, const std::string& file = {});
  /// What is wrong, in the order of the text.
  [[nodiscard]] const std::vector<Finding>& findings() const noexcept { return findings_; }

 private:
  std::vector<Finding> findings_;
};

/// The greatest number of a stage or microbatch that can be read.
inline constexpr std::int32_t kGreatestNumber = (1 << 20) - 1;

/// Reads CSV or a grid, whichever it is; lines end with LF or CRLF. The greatest number in the text
/// gives the number of stages, and of microbatches if `microbatches` is 0. `file` is for errors.
/// Throws ScheduleError.
[[nodiscard]] Schedule parse(std::string_view text, std::int32_t microbatches = 0,
                             const std::string& file = {});
/// Reads a file. Throws Error if it cannot be read, and as parse().
[[nodiscard]] Schedule read_schedule(const std::filesystem::path& file,
                                     std::int32_t microbatches = 0);

/// "2SEND_F0", as in CSV.
[[nodiscard]] std::string to_string(const Action& action);
/// A cell, as in CSV.
[[nodiscard]] std::string to_string(const Cell& cell);
/// The schedule as CSV.
[[nodiscard]] std::string to_csv(const Schedule& schedule);
/// The schedule as a grid, with LF at the end of lines. Columns are aligned, except cells of more
/// than 100 characters. `marked`: cells (row, column) that are shown as [FW00]; a grid with marks
/// cannot be read.
[[nodiscard]] std::string to_grid(
    const Schedule& schedule, const std::vector<std::pair<std::size_t, std::size_t>>& marked = {});

}  // namespace leat::pipeline
