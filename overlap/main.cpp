// leat-overlap: how close a feeding loop is to max(Tc, Tx), and what holds it back.
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/overlap/datasets.h"
#include "leat/overlap/figure.h"
#include "leat/overlap/html.h"
#include "leat/overlap/json.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/options.h"
#include "leat/overlap/progress.h"
#include "leat/overlap/sweep.h"
#include "leat/overlap/table.h"
#include "leat/overlap/trace/command.h"

namespace {

using overlap::Options;

// The link of a host device in a sweep. It copies 30 MB in 300 ms, so that the sweep measures the
// loop and not this machine's memory.
constexpr double kSweptLink = 100e6;

std::string machine() {
  std::string cpu = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  }
  utsname system{};
  uname(&system);
  return cpu + ", " + system.sysname + " " + system.release;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Opens the devices: "cuda:2" and 3 are cuda:2, cuda:3 and cuda:4.
std::vector<leat::gpu::Device> open_devices(const Options& options) {
  const std::optional<double> link =
      options.sweep && !options.link.has_value() ? std::optional(kSweptLink) : options.link;
  const auto open = [&](const std::string& name) {
    leat::gpu::Device device = leat::gpu::open(name);
    const bool is_host = device.capabilities().host_kernels;
    if (!is_host && (options.link.has_value() || options.virtual_time)) {
      throw leat::Error("leat-overlap: --link and --virtual are for host devices, and " +
                        device.name() + " is none");
    }
    if (!is_host || !link.has_value()) return device;
    const int number = std::stoi(device.name().substr(device.name().find(':') + 1));
    return leat::gpu::open_host({.h2d_bandwidth = *link, .d2h_bandwidth = *link}, number);
  };
  std::vector<leat::gpu::Device> devices = {open(options.device)};
  const std::string first = devices[0].name();
  const std::size_t colon = first.find(':');
  for (std::size_t i = 1; i < options.devices; ++i) {
    devices.push_back(
        open(first.substr(0, colon + 1) + std::to_string(std::stoul(first.substr(colon + 1)) + i)));
  }
  return devices;
}

constexpr const char* kToStdout = "-";

[[noreturn]] void cannot_write(const std::string& file) {
  throw leat::Error("leat-overlap: cannot write " + file + ": " +
                    std::generic_category().message(errno));
}

// Throws if the file cannot be written. Called first, so that an hour of measurements is not lost.
// Does not change an existing file, and does not open a pipe, whose reader would see its end.
void check_writable(const std::string& file) {
  if (file.empty() || file == kToStdout) return;
  const auto type = std::filesystem::symlink_status(file).type();
  const bool is_new = type == std::filesystem::file_type::not_found;
  if (!is_new && type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::directory) {
    return;
  }
  if (!std::ofstream(file, std::ios::app)) cannot_write(file);
  if (is_new) std::filesystem::remove(file);
}

void print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) == EOF || std::fflush(stdout) != 0) {
    cannot_write("to the standard output");
  }
}

void write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  if (text.empty()) throw leat::Error("leat-overlap: there is nothing to draw in " + file);
  if (file == kToStdout) {
    print(text);
    return;
  }
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) cannot_write(file);
}

void report(const Options& options, const overlap::Provenance& from,
            const std::vector<overlap::Measurement>& runs, const overlap::Sweep* sweep) {
  if (!options.json.empty()) write(options.json, overlap::json_report(from, runs, sweep));
  if (!options.html.empty()) write(options.html, overlap::html_report(from, runs, sweep));
  if (!options.svg.empty()) write(options.svg, overlap::svg_figure(from, runs, sweep));
}

void run(const Options& options, bool is_virtual) {
  bool quiet = false;
  for (const std::string* file : {&options.json, &options.html, &options.svg, &options.trace}) {
    check_writable(*file);
    quiet = quiet || *file == kToStdout;
  }
  const std::vector<leat::gpu::Device> devices = open_devices(options);
  const overlap::Provenance from{.command = options.command, .machine = machine(), .date = date()};
  std::unique_ptr<const leat::feeder::Dataset> data;
  if (!options.data.empty()) data = overlap::open_dataset(options.data);
  const auto fitted = [&](const overlap::Shape& asked) {
    return data == nullptr ? asked : overlap::shape_of(asked, *data);
  };
  overlap::Progress progress(options.effort.live ? overlap::Progress::Elsewhere::kLines
                                                 : overlap::Progress::Elsewhere::kNothing);
  if (options.sweep) {
    const auto after_cell = [&](const overlap::SweepCell& cell) {
      std::fprintf(stderr, "%s\n", overlap::summary_line(cell).c_str());
    };
    overlap::Sweep sweep = overlap::sweep(devices, fitted(options.shapes.at(0)),
                                          {.seconds = options.seconds,
                                           .trace = options.effort.trace,
                                           .after_cell = after_cell,
                                           .progress = &progress},
                                          data.get());
    for (overlap::SweepCell& cell : sweep.cells) {
      if (cell.result.has_value()) cell.result->virtual_time = is_virtual;
    }
    if (!quiet) print(overlap::sweep_table(sweep));
    report(options, from, {}, &sweep);
    return;
  }
  std::vector<overlap::Measurement> runs;
  overlap::Effort effort = options.effort;
  effort.progress = &progress;
  const int of_stderr = fcntl(STDERR_FILENO, F_GETFL);
  effort.live &= of_stderr != -1 && (of_stderr & O_ACCMODE) != O_RDONLY;  // like the progress
  for (const overlap::Shape& asked : options.shapes) {
    if (options.shapes.size() > 1) progress.set_heading(asked.name + ", ");
    overlap::Measurement measured = overlap::measure(devices, fitted(asked), effort, data.get());
    measured.virtual_time = is_virtual;
    if (!quiet) print((runs.empty() ? "" : "\n") + overlap::run_table(measured));
    runs.push_back(std::move(measured));
  }
  if (!options.trace.empty()) write(options.trace, runs.back().trace);
  report(options, from, runs, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  overlap::trace::Command trace;
  const std::optional<Options> options =
      overlap::parse_options(argc, argv, status, [&](CLI::App& app) { trace.declare(app); });
  if (!options.has_value()) return status;
  if (trace.is_asked()) return trace.run(argc, argv);
  try {
    if (options->virtual_time) {
      leat::VirtualClock clock;
      leat::run([&] { run(*options, true); }, {.workers = 1, .clock = &clock});
    } else {
      leat::run([&] { run(*options, false); });
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
