// The arguments of leat-overlap.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "leat/gpu/device.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/shape.h"

namespace overlap {

/// What the command line asks for.
struct Options {
  std::string device = "auto";
  std::size_t devices = 1;  // from that one on
  bool virtual_time = false;
  std::optional<double> link;  // bytes per second of the host device's modelled link
  std::vector<Shape> shapes;   // at least one
  std::string data;            // a dataset (overlap/datasets.h); empty: of the shape's
  Effort effort;
  bool sweep = false;
  double seconds = 1;  // of a cell of the sweep
  std::string json;    // the file; "-": the standard output, without the table; empty: none
  std::string html;    // likewise; empty: none
  std::string svg;     // likewise, for its main figure
  std::string trace;   // likewise, for a timeline viewer
  std::string command;
};

/// What the arguments ask for; nothing where there is no more to do (--help, --version, a mistake),
/// and `status` is the program's then. Writes help and complaints.
[[nodiscard]] std::optional<Options> parse(int argc, char** argv, int& status);

}  // namespace overlap
