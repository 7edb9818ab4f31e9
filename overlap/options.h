// The arguments of leat-overlap.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "leat/gpu/device.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/shape.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 names it
class App;
}  // namespace CLI

namespace overlap {

/// The options of the command line.
struct Options {
  std::string device = "auto";
  std::size_t devices = 1;  // number of devices, starting with `device`
  bool virtual_time = false;
  std::optional<double> link;  // bytes per second of the host device's modelled link
  std::vector<Shape> shapes;   // at least one
  std::string data;            // a dataset (overlap/datasets.h); empty: data of the shape's sizes
  Effort effort;
  bool sweep = false;
  double seconds = 1;  // duration of each loop in a cell of the sweep
  std::string json;    // the file; "-": the standard output, without the table; empty: none
  std::string html;    // as `json`
  std::string svg;     // as `json`, for the main figure
  std::string trace;   // as `json`, for a timeline viewer
  std::string command;
};

/// Parses the arguments. For --help, --version and wrong arguments, writes the answer and returns
/// nothing; `status` is then the program's exit status. `add_subcommand` declares a subcommand; if
/// the arguments ask for it, the options are the defaults.
[[nodiscard]] std::optional<Options> parse_options(
    int argc, char** argv, int& status, const std::function<void(CLI::App&)>& add_subcommand);

}  // namespace overlap
