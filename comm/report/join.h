// The files of several ranks, joined by communicator and number.
#pragma once

#include <string>
#include <vector>

#include "leat/comm/report/record.h"

namespace comm_report {

/// What the files say together.
struct Report {
  std::string text;          ///< lines, for a person
  bool is_complete = false;  ///< each rank's whole file was there
  bool is_open = false;      ///< an operation is open, has failed, or was not called by all
};

/// Joins `records`. Leaves out records of another number of ranks than the first one's, and a
/// rank's second record, and says so. Never compares instants: clocks of machines differ.
[[nodiscard]] Report join(std::vector<Record> records);

}  // namespace comm_report
