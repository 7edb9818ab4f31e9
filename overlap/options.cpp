#include "leat/overlap/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
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

// The descriptions of options name their units and defaults in words.
CLI::Validator quiet(CLI::Validator validator) {
  validator.description("");
  return validator;
}

// As CLI::Range, but refuses NaN, too.
template <class T>
CLI::Validator within(T least, T most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    std::ostringstream problem;
    problem << "Value " << text << " not in range [" << least << " - " << most << "]";
    return problem.str();
  };
  return {check, ""};
}

class Formatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    return type.empty() ? "" : " " + type;
  }
};

// Declares the options, and converts their values to Options.
class CommandLine {
 public:
  CommandLine() {
    app_.name("leat-overlap");
    app_.formatter(std::make_shared<Formatter>());
    app_.get_formatter()->column_width(28);
    app_.set_version_flag("--version", std::string("leat-overlap ") + LEAT_VERSION);
    declare_device();
    declare_loop();
    declare_reading();
    declare_prefetcher();
    declare_measuring();
    declare_output();
    declare_exclusions();
  }

  [[nodiscard]] CLI::App& app() noexcept { return app_; }

  // Throws CLI::ParseError.
  [[nodiscard]] Options parse(int argc, char** argv) {
    app_.parse(argc, argv);
    check_subcommand();
    check_combinations();
    for (int i = 0; i < argc; ++i) {
      options_.command += (i == 0 ? "leat-overlap" : std::string(" ") + argv[i]);
    }
    if (app_.get_option("--link")->count() > 0) options_.link = link_;
    set_trace();
    set_shapes();
    return options_;
  }
  [[nodiscard]] int exit(const CLI::ParseError& error) { return app_.exit(error) == 0 ? 0 : 2; }

 private:
  CLI::Option& add(const char* group, const char* name, const char* type, auto& into,
                   const std::string& help) {
    return *app_.add_option(name, into, help)->type_name(type)->group(group);
  }
  void add_flag(const char* group, const char* name, bool& into, const char* help) {
    app_.add_flag(name, into, help)->group(group);
  }
  void add_size(const char* group, const char* name, double& into, double least, const char* help) {
    add(group, name, "SIZE", into, help)
        .transform(quiet(with_unit(kSizes, "SIZE")))
        ->check(within(least, kMostBytes));
  }
  void add_time(const char* group, const char* name, double& into, const char* help) {
    add(group, name, "TIME", into, help)
        .transform(quiet(with_unit(kTimes, "TIME")))
        ->check(within(0.0, kMostNanoseconds));
  }
  template <class T>
  void add_number(const char* group, const char* name, const char* type, auto& into, T least,
                  T most, const char* help) {
    add(group, name, type, into, help).check(within(least, most));
  }
  void add_count(const char* group, const char* name, auto& into, int least, int most,
                 const char* help) {
    add_number(group, name, "N", into, least, most, help);
  }

  void declare_device() {
    constexpr const char* kGroup = "Device";
    add(kGroup, "--device", "NAME", options_.device,
        "auto, cuda:N or host:N; auto is the first CUDA device, or else the host");
    add_count(kGroup, "--devices", options_.devices, 1, 64,
              "use N devices, starting with --device (1)");
    add(kGroup, "--link", "RATE", link_, "host: model a link of that rate, such as 10GB/s")
        .transform(quiet(with_unit(kSizes, "RATE")))
        ->transform(quiet(CLI::Validator(without_per_second, "")))  // runs before the conversion
        ->check(within(1e5, 1e15));
    add_flag(kGroup, "--virtual", options_.virtual_time,
             "host: run in virtual time, where every figure is exact arithmetic");
  }

  void declare_loop() {
    constexpr const char* kGroup = "The loop";
    add_size(kGroup, "--batch", batch_, 8, "size of a batch (64MiB)");
    add_count(kGroup, "--samples", shape_.batch_size, 1, 1 << 20,
              "samples in a batch, all of the same size (1)");
    add_count(kGroup, "--tensors", shape_.tensors, 1, 64,
              "tensors in a sample, all of the same size (1)");
    add_time(kGroup, "--compute", compute_, "Tc: time that a step computes (5ms)");
    const std::map<std::string, Computing> kinds = {
        {"busy", Computing::kBusy}, {"cpu", Computing::kCpu}, {"gemm", Computing::kGemm}};
    add(kGroup, "--compute-kind", "KIND", shape_.computing,
        "busy: occupies the device (on the host device, no CPU); cpu: computes on a CPU (host); "
        "gemm: matrix products (CUDA)")
        .transform(quiet(CLI::CheckedTransformer(kinds)));
    add_number(kGroup, "--products", "N", shape_.products, std::int64_t{1}, std::int64_t{1} << 20,
               "gemm: compute N products in a step, instead of --compute's time");
    add(kGroup, "--shape", "NAME", shape_name_,
        "a shape of MLPerf Storage on H100: unet3d, resnet50, cosmoflow; mlperf: all three")
        .check(quiet(CLI::IsMember({"unet3d", "resnet50", "cosmoflow", "mlperf"})));
  }

  void declare_reading() {
    constexpr const char* kGroup = "Reading";
    add(kGroup, "--data", "DATA", options_.data, "read real data: " + dataset_forms());
    add_time(kGroup, "--read", read_, "Tread: time that one worker takes to read a batch (0)");
    const std::map<std::string, Reading> kinds = {{"waiting", Reading::kWaiting},
                                                  {"computing", Reading::kComputing}};
    add(kGroup, "--read-kind", "KIND", shape_.reading,
        "waiting, as for a disk; computing, as in decoding (waiting)")
        .transform(quiet(CLI::CheckedTransformer(kinds)));
    add_number(kGroup, "--jitter", "SIGMA", shape_.jitter, 0.0, 4.0,
               "Tread varies: sigma of a lognormal distribution with the same mean (0)");
    add_number(kGroup, "--straggler-every", "N", shape_.straggler_every, std::int64_t{0},
               std::int64_t{1} << 32, "one batch in N takes longer to read (0: none)");
    add_number(kGroup, "--straggler-factor", "X", shape_.straggler_factor, 1.0, 1e4,
               "such a batch takes X times as long (10)");
    add_number(kGroup, "--seed", "N", shape_.seed, std::int64_t{0},
               std::numeric_limits<std::int64_t>::max(), "seed of the jitter (1)");
  }

  void declare_prefetcher() {
    constexpr const char* kGroup = "The prefetcher";
    add_count(kGroup, "--depth", shape_.prefetch_depth, 1, 4096,
              "prefetch_depth: 2 is double buffering; with 1, copies and compute take turns (2)");
    add_count(kGroup, "--workers", shape_.workers, 1, 4096, "fibers that read (1)");
    add_count(kGroup, "--pinned-slots", shape_.pinned_slots, 0, 4096,
              "pinned slots of each device (0: chosen by the prefetcher)");
    add_size(kGroup, "--max-pinned", max_pinned_, 0, "cap of pinned memory, over all devices");
    add_size(kGroup, "--max-device", max_device_, 0, "cap of each device's memory");
  }

  void declare_measuring() {
    constexpr const char* kGroup = "Measuring";
    constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
    add_number(kGroup, "--steps", "N", options_.effort.steps, std::uint64_t{1}, kMost,
               "steps of each loop that are measured (200)");
    add_number(kGroup, "--warm-up", "N", options_.effort.warm_up, std::uint64_t{1}, kMost,
               "steps before them that are not measured (10)");
    add_flag(kGroup, "--sweep", options_.sweep,
             "measure a grid: Tx/Tc from 0.1 to 2, steps from 0.5 to 300 ms, depths from 1 to 4");
    add_number(kGroup, "--seconds", "S", options_.seconds, 0.001, 3600.0,
               "with --sweep: duration of each loop in a cell, about (1)");
    add_flag(kGroup, "--live", options_.effort.live,
             "show what runs: on a terminal a view of the loop, elsewhere a line a second");
  }

  void declare_output() {
    constexpr const char* kGroup = "Output";
    add(kGroup, "--json", "FILE", options_.json,
        "write all figures; -, here and below: to the standard output, instead of the table");
    add(kGroup, "--html", "FILE", options_.html, "write a report for a browser");
    add(kGroup, "--svg", "FILE", options_.svg,
        "write the report's main figure: timelines, or the heat maps of a sweep");
    add(kGroup, "--trace", "FILE", options_.trace,
        "write a timeline of 64 batches for Perfetto or chrome://tracing; for one shape only");
  }

  // Excludes options whose value is determined by --shape, --data or --sweep.
  void declare_exclusions() {
    const auto exclude = [&](const char* name, std::initializer_list<const char*> others) {
      for (const char* other : others) app_.get_option(name)->excludes(app_.get_option(other));
    };
    exclude("--shape", {"--batch", "--samples", "--compute"});
    exclude("--data", {"--shape", "--batch", "--read", "--read-kind", "--jitter",
                       "--straggler-every", "--straggler-factor", "--tensors"});
    exclude("--sweep", {"--shape", "--batch", "--samples", "--compute", "--depth", "--steps",
                        "--warm-up", "--products", "--live", "--trace"});
    app_.get_option("--seconds")->needs(app_.get_option("--sweep"));
  }

  // A subcommand runs no loop.
  void check_subcommand() const {
    if (app_.get_subcommands().empty()) return;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->count() == 0) continue;
      throw CLI::ValidationError(option->get_name() + " is of a loop, and " +
                                 app_.get_subcommands()[0]->get_name() + " runs none");
    }
  }

  void check_combinations() const {
    const auto refuse_if = [](bool is_wrong, const char* why) {
      if (is_wrong) throw CLI::ValidationError(why);
    };
    refuse_if(app_.get_option("--products")->count() > 0 && shape_.computing != Computing::kGemm,
              "--products needs --compute-kind gemm");
    refuse_if(options_.virtual_time && shape_.computing == Computing::kCpu,
              "--virtual: no CPU computes in virtual time; ask for --compute-kind busy");
    refuse_if(options_.virtual_time && shape_.reading == Reading::kComputing,
              "--virtual: no CPU computes in virtual time; ask for --read-kind waiting");
    refuse_if(!options_.trace.empty() && shape_name_ == "mlperf",
              "--trace writes one shape; ask for one of mlperf's");
    const std::array<const std::string*, 4> files = {&options_.json, &options_.html, &options_.svg,
                                                     &options_.trace};
    refuse_if(std::ranges::count_if(files, [](const auto* file) { return *file == "-"; }) > 1,
              "one file at most can be -, the standard output");
  }

  // Sets how many batches are recorded.
  void set_trace() {
    constexpr std::size_t kTraced = 64;
    // A timeline's steps come from the middle. Meanwhile batches of later steps are read: as many
    // as there are slots.
    constexpr std::size_t kShown = 16;
    const std::size_t ahead =
        std::max(shape_.pinned_slots, shape_.workers + shape_.prefetch_depth) +
        shape_.prefetch_depth;
    std::size_t& trace = options_.effort.trace;
    if (!options_.html.empty() || !options_.svg.empty()) trace = kShown + 2 * ahead;
    if (!options_.trace.empty()) trace = std::max(trace, kTraced);
  }

  void set_shapes() {
    shape_.t_read = time_of(read_);
    shape_.t_c = time_of(compute_);
    shape_.max_pinned_bytes = bytes_of(max_pinned_);
    shape_.max_device_bytes = bytes_of(max_device_);
    shape_.sample_bytes = std::max<std::size_t>(bytes_of(batch_) / shape_.batch_size, 1);
    if (shape_name_.empty()) options_.shapes.push_back(shape_);
    for (const Shape& one : mlperf_shapes()) {
      if (shape_name_ != "mlperf" && shape_name_ != one.name) continue;
      Shape& shape = options_.shapes.emplace_back(shape_);
      shape.name = one.name;
      shape.batch_size = one.batch_size;
      shape.sample_bytes = one.sample_bytes;
      shape.t_c = one.t_c;
    }
  }

  CLI::App app_{
      "Measures how close a feeding loop comes to max(Tc, Tx), and what holds it back: Tc is the\n"
      "compute of a step, Tx the copies of a batch. Runs the loop with a prefetcher and, to "
      "compare,\n"
      "the serial loop, the loop without feeding, and the link alone. Sizes and times have a unit\n"
      "(64MiB, 114.7kB; 5ms, 300us)."};
  Options options_;
  Shape shape_;
  std::string shape_name_;
  // Values as parsed, in bytes, bytes per second and nanoseconds.
  double batch_ = 0x1p26;
  double link_ = 0;
  double read_ = 0;
  double compute_ = 5e6;
  double max_pinned_ = 0;
  double max_device_ = 0;
};

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& status,
                                     const std::function<void(CLI::App&)>& add_subcommand) {
  CommandLine line;
  add_subcommand(line.app());
  try {
    return line.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = line.exit(error);
    return std::nullopt;
  }
}

}  // namespace overlap
