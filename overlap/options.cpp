#include "leat/overlap/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string_view>

#include "leat/overlap/datasets.h"

namespace overlap {
namespace {

const std::map<std::string, double> kSizes = {{"B", 1},      {"kB", 1e3},    {"KB", 1e3},
                                              {"KiB", 1024}, {"MB", 1e6},    {"MiB", 0x1p20},
                                              {"GB", 1e9},   {"GiB", 0x1p30}};
const std::map<std::string, double> kTimes = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

CLI::AsNumberWithUnit with_unit(const std::map<std::string, double>& units, const char* name) {
  return CLI::AsNumberWithUnit(
      units,
      CLI::AsNumberWithUnit::Options(CLI::AsNumberWithUnit::CASE_SENSITIVE |
                                     CLI::AsNumberWithUnit::UNIT_REQUIRED),
      name);
}

// "10GB/s" becomes "10GB".
std::string without_per_second(std::string& text) {
  constexpr std::string_view kPerSecond = "/s";
  if (!text.ends_with(kPerSecond)) return "a rate has a unit, such as 10GB/s";
  text.resize(text.size() - kPerSecond.size());
  return {};
}

constexpr double kMostBytes = 0x1p46;
constexpr double kMostNanoseconds = 3600e9;

std::size_t bytes_of(double bytes) { return static_cast<std::size_t>(std::llround(bytes)); }

leat::Duration time_of(double nanoseconds) { return leat::Duration(std::llround(nanoseconds)); }

// The help names an option's unit and default in words.
CLI::Validator quiet(CLI::Validator validator) {
  validator.description("");
  return validator;
}

class Formatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return type.empty() ? "" : " " + type;
  }
};

}  // namespace

std::optional<Options> parse(int argc, char** argv, int& status) {
  Options options;
  Shape shape;
  double batch = 0x1p26;
  double read = 0;
  double compute = 5e6;
  double max_pinned = 0;
  double max_device = 0;
  double link = 0;
  std::string named;

  CLI::App app(
      "How close a feeding loop comes to max(Tc, Tx), compute or copies, and what holds it back.\n"
      "Runs the loop with a prefetcher and, beside it, the serial loop, the loop without feeding "
      "and\n"
      "the link alone. Sizes have a unit (64MiB, 114.7kB), and so have times (5ms, 300us).");
  app.name("leat-overlap");
  app.formatter(std::make_shared<Formatter>());
  app.get_formatter()->column_width(28);
  app.set_version_flag("--version", std::string("leat-overlap ") + LEAT_VERSION);

  app.add_option("--device", options.device,
                 "auto, cuda:N or host:N; auto is the first CUDA device, else the host")
      ->type_name("NAME")
      ->group("Where");
  app.add_option("--devices", options.devices, "that many, from that one on (1)")
      ->type_name("N")
      ->check(quiet(CLI::Range(1, 64)))
      ->group("Where");
  CLI::Option* const link_option =
      app.add_option("--link", link, "host: model a link of that rate, such as 10GB/s")
          ->type_name("RATE")
          ->transform(quiet(with_unit(kSizes, "RATE")))
          ->transform(quiet(CLI::Validator(without_per_second, "")))  // which comes before
          ->check(quiet(CLI::Range(1e5, 1e15)))
          ->group("Where");
  app.add_flag("--virtual", options.virtual_time,
               "host: in virtual time, where every figure is arithmetic")
      ->group("Where");

  CLI::Option* const batch_option = app.add_option("--batch", batch, "bytes of a batch (64MiB)")
                                        ->type_name("SIZE")
                                        ->transform(quiet(with_unit(kSizes, "SIZE")))
                                        ->check(quiet(CLI::Range(8.0, kMostBytes)))
                                        ->group("The loop");
  CLI::Option* const samples_option =
      app.add_option("--samples", shape.batch_size, "samples of a batch, of the same size (1)")
          ->type_name("N")
          ->check(quiet(CLI::Range(1, 1 << 20)))
          ->group("The loop");
  CLI::Option* const data_option =
      app.add_option("--data", options.data, "read that: " + dataset_forms())
          ->type_name("DATA")
          ->group("Reading");
  CLI::Option* const tensors_option =
      app.add_option("--tensors", shape.tensors, "tensors of a sample, of the same size (1)")
          ->type_name("N")
          ->check(quiet(CLI::Range(1, 64)))
          ->group("The loop");
  CLI::Option* const compute_option =
      app.add_option("--compute", compute, "Tc, what a step computes (5ms)")
          ->type_name("TIME")
          ->transform(quiet(with_unit(kTimes, "TIME")))
          ->check(quiet(CLI::Range(0.0, kMostNanoseconds)))
          ->group("The loop");
  app.add_option("--compute-kind", shape.computing,
                 "busy: the device is occupied, host: without a CPU; cpu: a CPU computes (host); "
                 "gemm: matrix products (CUDA)")
      ->transform(quiet(CLI::CheckedTransformer(std::map<std::string, Computing>{
          {"busy", Computing::kBusy}, {"cpu", Computing::kCpu}, {"gemm", Computing::kGemm}})))
      ->type_name("KIND")
      ->group("The loop");
  CLI::Option* const products_option =
      app.add_option("--products", shape.products,
                     "gemm: so many products in a step, in place of --compute's time")
          ->type_name("N")
          ->check(quiet(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20)))
          ->group("The loop");
  CLI::Option* const shape_option =
      app.add_option("--shape", named,
                     "of MLPerf Storage on H100: unet3d, resnet50, cosmoflow; mlperf: all three")
          ->check(quiet(CLI::IsMember({"unet3d", "resnet50", "cosmoflow", "mlperf"})))
          ->type_name("NAME")
          ->group("The loop");
  data_option->excludes(shape_option)->excludes(batch_option);
  shape_option->excludes(batch_option)->excludes(samples_option)->excludes(compute_option);

  CLI::Option* const read_option =
      app.add_option("--read", read, "Tread, what reading a batch takes one worker (0)")
          ->type_name("TIME")
          ->transform(quiet(with_unit(kTimes, "TIME")))
          ->check(quiet(CLI::Range(0.0, kMostNanoseconds)))
          ->group("Reading");
  CLI::Option* const read_kind_option =
      app.add_option("--read-kind", shape.reading,
                     "waiting, as for a disk; computing, as in decoding")
          ->transform(quiet(CLI::CheckedTransformer(std::map<std::string, Reading>{
              {"waiting", Reading::kWaiting}, {"computing", Reading::kComputing}})))
          ->type_name("KIND")
          ->group("Reading");
  CLI::Option* const jitter_option =
      app.add_option("--jitter", shape.jitter, "sigma of the lognormal Tread, whose mean stays (0)")
          ->type_name("SIGMA")
          ->check(quiet(CLI::Range(0.0, 4.0)))
          ->group("Reading");
  CLI::Option* const straggler_option =
      app.add_option("--straggler-every", shape.straggler_every,
                     "one batch in N takes longer to read (0: none)")
          ->type_name("N")
          ->check(quiet(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32)))
          ->group("Reading");
  CLI::Option* const factor_option =
      app.add_option("--straggler-factor", shape.straggler_factor, "so many times as long (10)")
          ->type_name("X")
          ->check(quiet(CLI::Range(1.0, 1e4)))
          ->group("Reading");
  app.add_option("--seed", shape.seed, "of the jitter (1)")
      ->type_name("N")
      ->check(quiet(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max())))
      ->group("Reading");

  CLI::Option* const depth_option =
      app.add_option("--depth", shape.prefetch_depth,
                     "prefetch_depth: 2 is double buffering, 1 takes turns (2)")
          ->type_name("N")
          ->check(quiet(CLI::Range(1, 4096)))
          ->group("The prefetcher");
  app.add_option("--workers", shape.workers, "fibers that read (1)")
      ->type_name("N")
      ->check(quiet(CLI::Range(1, 4096)))
      ->group("The prefetcher");
  app.add_option("--pinned-slots", shape.pinned_slots, "of each device (0: as it chooses)")
      ->type_name("N")
      ->check(quiet(CLI::Range(0, 4096)))
      ->group("The prefetcher");
  app.add_option("--max-pinned", max_pinned, "cap of pinned memory, over all devices")
      ->type_name("SIZE")
      ->transform(quiet(with_unit(kSizes, "SIZE")))
      ->check(quiet(CLI::Range(0.0, kMostBytes)))
      ->group("The prefetcher");
  app.add_option("--max-device", max_device, "cap of each device's memory")
      ->type_name("SIZE")
      ->transform(quiet(with_unit(kSizes, "SIZE")))
      ->check(quiet(CLI::Range(0.0, kMostBytes)))
      ->group("The prefetcher");

  CLI::Option* const steps_option =
      app.add_option("--steps", options.effort.steps, "of each loop that are measured (200)")
          ->type_name("N")
          ->check(quiet(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32)))
          ->group("Measuring");
  CLI::Option* const warm_up_option =
      app.add_option("--warm-up", options.effort.warm_up, "steps before them (10)")
          ->type_name("N")
          ->check(quiet(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32)))
          ->group("Measuring");
  CLI::Option* const sweep_option =
      app.add_flag("--sweep", options.sweep,
                   "Tx/Tc from 0.1 to 2 x steps from 0.5 to 300 ms x depths from 1 to 4")
          ->excludes(shape_option)
          ->excludes(batch_option)
          ->excludes(samples_option)
          ->excludes(compute_option)
          ->group("Measuring");
  CLI::Option* const seconds_option =
      app.add_option("--seconds", options.seconds, "of each loop in a cell of the sweep, about (1)")
          ->type_name("S")
          ->check(quiet(CLI::Range(0.001, 3600.0)))
          ->group("Measuring");
  app.add_flag("--live", options.effort.live,
               "show the loop while it runs: on a terminal a view, elsewhere a line a second")
      ->excludes(sweep_option)
      ->group("Measuring");
  app.add_option("--json", options.json,
                 "write all figures there; -: to the standard output, in place of the table; so "
                 "for all files")
      ->type_name("FILE")
      ->group("Measuring");

  app.add_option("--html", options.html, "write a report to look at in a browser")
      ->type_name("FILE")
      ->group("Measuring");
  app.add_option("--svg", options.svg, "write its main figure: timelines, the heat maps of a sweep")
      ->type_name("FILE")
      ->group("Measuring");
  app.add_option("--trace", options.trace,
                 "write a timeline of 64 batches, for Perfetto or chrome://tracing; not of several "
                 "shapes")
      ->type_name("FILE")
      ->excludes(sweep_option)
      ->group("Measuring");

  // What a dataset or the grid decides cannot be asked for beside it.
  for (CLI::Option* const option : {read_option, read_kind_option, jitter_option, straggler_option,
                                    factor_option, tensors_option}) {
    data_option->excludes(option);
  }
  for (CLI::Option* const option : {depth_option, steps_option, warm_up_option, products_option}) {
    sweep_option->excludes(option);
  }
  seconds_option->needs(sweep_option);

  try {
    app.parse(argc, argv);
    const auto refuse = [](const char* what) { throw CLI::ValidationError(what); };
    if (products_option->count() > 0 && shape.computing != Computing::kGemm) {
      refuse("--products is of --compute-kind gemm");
    }
    if (options.virtual_time && shape.computing == Computing::kCpu) {
      refuse("--virtual: no CPU computes in virtual time; ask for --compute-kind busy");
    }
    if (options.virtual_time && shape.reading == Reading::kComputing) {
      refuse("--virtual: no CPU computes in virtual time; ask for --read-kind waiting");
    }
    if (!options.trace.empty() && named == "mlperf") {
      refuse("--trace is of one shape; ask for one of mlperf's");
    }
    const auto to_stdout = [](const std::string& file) { return file == "-" ? 1 : 0; };
    if (to_stdout(options.json) + to_stdout(options.html) + to_stdout(options.svg) +
            to_stdout(options.trace) >
        1) {
      refuse("one file at most can be -, the standard output");
    }
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }

  for (int i = 0; i < argc; ++i) {
    options.command += (i == 0 ? "leat-overlap" : std::string(" ") + argv[i]);
  }
  if (link_option->count() > 0) options.link = link;
  constexpr std::size_t kTraced = 64;
  // A timeline's steps come from the middle; what is read beside them is for steps to come, up to
  // as many as there are slots.
  constexpr std::size_t kShown = 16;
  const std::size_t ahead =
      std::max(shape.pinned_slots, shape.workers + shape.prefetch_depth) + shape.prefetch_depth;
  if (!options.html.empty() || !options.svg.empty()) options.effort.trace = kShown + 2 * ahead;
  if (!options.trace.empty()) options.effort.trace = std::max(options.effort.trace, kTraced);
  shape.t_read = time_of(read);
  shape.t_c = time_of(compute);
  shape.max_pinned_bytes = bytes_of(max_pinned);
  shape.max_device_bytes = bytes_of(max_device);
  shape.sample_bytes = std::max<std::size_t>(bytes_of(batch) / shape.batch_size, 1);
  if (named.empty()) {
    options.shapes.push_back(shape);
  } else {
    for (const Shape& one : mlperf_shapes()) {
      if (named != "mlperf" && named != one.name) continue;
      Shape of = shape;
      of.name = one.name;
      of.batch_size = one.batch_size;
      of.sample_bytes = one.sample_bytes;
      of.t_c = one.t_c;
      options.shapes.push_back(of);
    }
  }
  return options;
}

}  // namespace overlap
