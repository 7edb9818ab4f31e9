#include "leat/overlap/trace/command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/events.h"
#include "leat/overlap/trace/readers/nsight.h"
#include "leat/overlap/trace/report/json.h"
#include "leat/overlap/trace/report/page.h"
#include "leat/overlap/trace/report/table.h"

namespace overlap::trace {
namespace {

constexpr int kHolds = 1;
constexpr int kUsage = 2;
constexpr int kUnreadable = 3;

std::optional<std::regex> pattern(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument(std::string(option) + ": \"" + text +
                                "\" is no regular expression: " + error.what());
  }
}

// "1009-1013", "7".
std::optional<std::pair<std::int64_t, std::int64_t>> numbers(const std::string& text) {
  if (text.empty()) return std::nullopt;
  static const std::regex form("([0-9]{1,18})(?:-([0-9]{1,18}))?");
  std::smatch found;
  if (!std::regex_match(text, found, form)) {
    throw std::invalid_argument("--steps: \"" + text +
                                "\" is no range of numbers, such as 1009-1013");
  }
  const std::int64_t first = std::stoll(found[1]);
  const std::int64_t last = found[2].matched ? std::stoll(found[2]) : first;
  if (last < first) throw std::invalid_argument("--steps: \"" + text + "\" ends before it begins");
  return std::pair(first, last);
}

void write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  errno = 0;
  if (file == "-") {
    if (std::fputs(text.c_str(), stdout) != EOF && std::fflush(stdout) == 0) return;
  } else {
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (out) return;
  }
  throw Unreadable("cannot write " + (file == "-" ? "to the standard output" : file) + ": " +
                   std::generic_category().message(errno));
}

}  // namespace

struct Command::Arguments {
  bool is_asked = false;
  std::vector<std::string> files;
  std::string step;
  std::string steps;
  std::string clock = "device";
  std::string data;
  std::string comm;
  std::int64_t device = -1;
  std::string link;
  std::string compare;
  std::vector<std::string> fail_if;
  bool partial = false;
  std::string html;
  std::string json;
  std::string csv;
};

Command::Command() : given_(std::make_unique<Arguments>()) {}
Command::~Command() = default;

void Command::declare(CLI::App& app) {
  Arguments& to = *given_;
  CLI::App& trace = *app.add_subcommand(
      "trace",
      "Tells where the time of a GPU program's steps goes, by its trace: of the PyTorch profiler\n"
      "(.json, .json.gz), of Nsight Systems (.sqlite), or of Leat");
  trace.parse_complete_callback([&to] { to.is_asked = true; });
  const auto add = [&](const char* name, const char* type, auto& into,
                       const char* help) -> CLI::Option& {
    return *trace.add_option(name, into, help)->type_name(type);
  };
  add("files", "FILE", to.files, "traces; several are ranks of one program").required();
  add("--step", "RE", to.step,
      "the ranges that are steps: a regular expression, found in their names");
  add("--steps", "A-B", to.steps, "steps with these numbers in their names alone, both ends in");
  add("--clock", "WHICH", to.clock,
      "device: a step begins with its first kernel; host: with its range")
      .check(CLI::IsMember({"device", "host"}));
  add("--data", "RE", to.data, "more ranges in which the host loads data");
  add("--comm", "RE", to.comm, "more kernels that communicate");
  add("--device", "N", to.device, "that device alone").check(CLI::NonNegativeNumber);
  add("--link", "RATE", to.link, "what the link between host and device can do, such as 25GB/s");
  add("--compare", "OTHER", to.compare, "a trace to compare with");
  add("--fail-if", "CONDITION", to.fail_if,
      "exit with 1 if it holds for the mean step: oe<0.9, idle.host_ns>5ms; may be repeated")
      .allow_extra_args(false);
  trace.add_flag("--partial", to.partial,
                 "of a damaged JSON file, report what comes before the damage");
  add("--html", "FILE", to.html, "write a report for a browser");
  add("--json", "FILE", to.json,
      "write all figures; -, here and below: to the standard output, instead of the table");
  add("--csv", "FILE", to.csv, "write a row for each step");
}

bool Command::is_asked() const { return given_->is_asked; }

namespace {

double link_rate(const std::string& text) {
  const std::map<std::string, double> units = {{"B/s", 1},      {"kB/s", 1e3},    {"KB/s", 1e3},
                                               {"KiB/s", 1024}, {"MB/s", 1e6},    {"MiB/s", 0x1p20},
                                               {"GB/s", 1e9},   {"GiB/s", 0x1p30}};
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  const auto unit = units.find(text.substr(end));
  if (end == 0 || unit == units.end() || !(number > 0) || number * unit->second > 1e15) {
    throw std::invalid_argument("--link: \"" + text + "\" is no rate, such as 25GB/s");
  }
  return number * unit->second;
}

TraceReport report_of(const std::string& file, const AnalysisOptions& options, bool partial) {
  try {
    return analyze(is_sqlite(file) ? read_nsight(file, options.rules)
                                   : read_events(file, options.rules, partial),
                   options);
  } catch (const std::bad_alloc&) {
    throw Unreadable(file + ": not enough memory for its events; record fewer steps");
  }
}

}  // namespace

int Command::run(int argc, const char* const* argv) noexcept {
  try {
    const Arguments& given = *given_;
    AnalysisOptions options;
    options.rules.step = pattern("--step", given.step);
    options.rules.data = pattern("--data", given.data);
    options.rules.comm = pattern("--comm", given.comm);
    options.steps = {.by_host = given.clock == "host", .only = numbers(given.steps)};
    if (given.device >= 0) options.device = given.device;
    if (!given.link.empty()) options.link = link_rate(given.link);
    std::vector<Condition> conditions;
    for (const std::string& text : given.fail_if) conditions.push_back(parse_condition(text));
    int outputs = 0;
    for (const std::string* file : {&given.html, &given.json, &given.csv})
      outputs += *file == "-" ? 1 : 0;
    if (outputs > 1) throw std::invalid_argument("one file at most can be -, the standard output");
    if (outputs == 1 && !given.compare.empty())
      throw std::invalid_argument(
          "--compare writes to the standard output; name a file in place of -");

    std::vector<TraceReport> reports;
    for (const std::string& file : given.files)
      reports.push_back(report_of(file, options, given.partial));
    std::string command = "leat-overlap";
    for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
    if (outputs == 0) {
      write("-", text_report(reports));
      if (!given.compare.empty())
        write("-", comparison(reports, {report_of(given.compare, options, given.partial)}));
    }
    if (!given.html.empty()) write(given.html, html_report(command, reports));
    if (!given.json.empty()) write(given.json, json_report(command, reports));
    if (!given.csv.empty()) write(given.csv, csv_report(reports));
    int status = 0;
    for (const Condition& condition : conditions) {
      for (const std::string& where : where_holds(condition, reports)) {
        std::fprintf(stderr, "leat-overlap trace: --fail-if '%s': %s\n", condition.text.c_str(),
                     where.c_str());
        status = kHolds;
      }
    }
    return status;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "leat-overlap trace: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "leat-overlap trace: %s\n", error.what());
    return kUnreadable;
  }
}

}  // namespace overlap::trace
