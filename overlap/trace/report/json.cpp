#include "leat/overlap/trace/report/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace overlap::trace {
namespace {

using nlohmann::ordered_json;

// In the order of Part.
constexpr std::array<const char*, kParts> kPartKeys = {
    "compute_ns",     "comm_ns",           "h2d_ns",          "d2h_ns",
    "d2d_ns",         "memset_ns",         "exposed_comm_ns", "exposed_h2d_ns",
    "exposed_d2h_ns", "exposed_copies_ns", "exposed_ns"};

std::int64_t share(Time time, std::uint64_t steps) {
  return steps == 1 ? time : std::llround(static_cast<double>(time) / static_cast<double>(steps));
}

ordered_json hidden(Time exposed, Time all) {
  if (all == 0) return nullptr;
  return 1 - static_cast<double>(exposed) / static_cast<double>(all);
}

ordered_json json_of(const Figures& of, std::uint64_t steps) {
  ordered_json out;
  out["t_step_ns"] = share(of.length, steps);
  for (std::size_t i = 0; i < kPartKeys.size() && kPartKeys[i] != nullptr; ++i)
    out[kPartKeys[i]] = share(of.of[i], steps);
  out["sum"] = {{"compute_ns", share(of[Part::kCompute], steps)},
                {"comm_ns", share(of[Part::kSumComm], steps)},
                {"copies_ns", share(of[Part::kSumCopies], steps)},
                {"memory_ns", share(of[Part::kSumMemory], steps)},
                {"other_ns", share(of[Part::kSumOther], steps)},
                {"idle_ns", share(of.length - of[Part::kBusy], steps)}};
  for (std::size_t i = 0; i < kCauses; ++i)
    out["idle"][key_of(static_cast<Cause>(i))] = share(of.idle[i], steps);
  out["hidden"] = {{"comm", hidden(of[Part::kExposedComm], of[Part::kComm])},
                   {"h2d", hidden(of[Part::kExposedH2d], of[Part::kH2d])},
                   {"d2h", hidden(of[Part::kExposedD2h], of[Part::kD2h])}};
  out["oe"] = of.oe();
  out["longest"] = to_string(of.longest());
  out["bubble_ns"] = share(of.length - of.most(), steps);
  return out;
}

// The mean step. Of a loop: by mean lengths where its own measurement has it so.
ordered_json mean_of(const DeviceReport& of) {
  ordered_json out = json_of(of.mean, of.steps_in_mean);
  if (!of.loop) return out;
  out["t_x_ns"] = std::llround(of.loop->t_x);
  out["t_c_ns"] = std::llround(of.loop->t_c);
  out["hidden"]["shorter"] = of.loop->hidden;
  out["oe"] = of.oe();
  out["bubble_ns"] = std::llround(
      static_cast<double>(of.mean.length) / static_cast<double>(of.steps_in_mean) - of.most());
  return out;
}

ordered_json json_of(const std::vector<NameTime>& names, std::size_t most) {
  ordered_json out = ordered_json::array();
  for (const NameTime& of : names) {
    if (out.size() == most) break;
    out.push_back({{"name", of.name}, {"count", of.count}, {"time_ns", of.time}});
  }
  return out;
}

template <class Number>
ordered_json optional(const std::optional<Number>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json json_of(const DeviceReport& of, std::size_t most_steps) {
  ordered_json out;
  out["device"] = of.number;
  out["name"] = of.name;
  out["verdict"] = of.verdict;
  out["ops"] = of.ops;
  out["graphs"] = of.graphs;
  out["whole"] = json_of(of.whole, 1);
  out["mean"] = mean_of(of);
  out["steps_found_by"] = of.steps.found_by;
  out["steps_measured"] = of.steps.measured;
  out["steps_by_host"] = of.steps.is_by_host;
  out["lead_ns"] = optional(of.steps.lead);
  out["ops_outside_steps"] = of.steps.ops_outside;
  const std::size_t steps = of.steps.all.size();
  const std::size_t stride = steps <= most_steps ? 1 : (steps + most_steps - 1) / most_steps;
  if (stride > 1) out["steps_thinned"] = steps;
  out["steps"] = ordered_json::array();
  for (std::size_t i = 0; i < steps; i += stride) {
    const std::size_t end = std::min(i + stride, steps);
    std::vector<std::size_t> neighbours;
    for (std::size_t k = i; k < end; ++k) neighbours.push_back(k);
    std::ranges::sort(neighbours, {}, [&](std::size_t k) { return of.of_steps[k].length; });
    const std::size_t k = neighbours[neighbours.size() / 2];
    const Step& step = of.steps.all[k];
    ordered_json one{{"name", step.name},
                     {"number", optional(step.number)},
                     {"ops", step.ops},
                     {"is_empty", step.is_empty}};
    if (!step.is_empty) {
      one["begin_ns"] = step.device.begin;
      one.update(json_of(of.of_steps[k], 1));
    }
    out["steps"].push_back(std::move(one));
  }
  out["what_if"] = ordered_json::object();
  for (const WhatIf& one : of.what_if) {
    out["what_if"][one.change] = {
        {"words", one.words},
        {"best_ns",
         one.best ? ordered_json(share(*one.best, of.steps_in_mean)) : ordered_json(nullptr)},
        {"today_ns", share(of.mean.length, of.steps_in_mean)}};
  }
  out["calls"] = json_of(of.calls, 10);
  out["names"] = json_of(of.names, 10);
  out["copies"] = ordered_json::array();
  for (const Copies& copies : of.copies) {
    out["copies"].push_back({{"direction", to_string(copies.direction)},
                             {"memory", to_string(copies.memory)},
                             {"count", copies.count},
                             {"bytes", copies.bytes},
                             {"bytes_per_s", optional(copies.rate())}});
  }
  out["link"] = of.link == 0 ? ordered_json(nullptr) : ordered_json(of.link);
  out["streams"] = ordered_json::array();
  for (const StreamTime& stream : of.streams) {
    ordered_json one{{"name", stream.name}, {"ops", stream.ops}};
    for (std::size_t i = 0; i < kKinds; ++i)
      one[std::string(to_string(static_cast<Kind>(i))) + "_ns"] = stream.of[i];
    out["streams"].push_back(std::move(one));
  }
  out["odd"] = {{"overlap_in_stream", of.odd.overlap_in_stream},
                {"equal", of.odd.equal},
                {"before_launch", of.odd.before_launch},
                {"without_call", of.odd.without_call}};
  return out;
}

// "idle.host_ns" is /idle/host_ns of a flat object.
std::string pointer_to(const std::string& name) {
  std::string pointer = "/" + name;
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

// Whether a mean step may have such a figure.
bool is_figure(const std::string& name) {
  DeviceReport any;
  any.loop.emplace();
  const ordered_json flat = mean_of(any).flatten();
  const auto found = flat.find(pointer_to(name));
  return found != flat.end() && (found->is_number() || found->is_null());
}

// "5ms" is 5e6; "0.9" is 0.9.
double bound_of(const std::string& text, bool is_time) {
  std::size_t end = 0;
  const double number = std::stod(text, &end);
  const std::string unit = text.substr(end);
  if (!std::isfinite(number)) throw std::invalid_argument(text);
  constexpr std::array<std::pair<const char*, double>, 4> kUnits = {
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  if (unit.empty()) return number;
  for (const auto& [name, factor] : kUnits) {
    if (is_time && unit == name) return number * factor;
  }
  throw std::invalid_argument(unit);
}

}  // namespace

std::string name_of(const TraceReport& trace, std::int64_t device, std::size_t traces) {
  std::string text = traces > 1 ? trace.file + ", " : "";
  if (trace.rank) text += "rank " + std::to_string(*trace.rank) + ", ";
  return text + "device " + std::to_string(device);
}

ordered_json json_tree(const std::string& command, const std::vector<TraceReport>& traces,
                       std::size_t most_steps) {
  ordered_json out{
      {"leat-overlap trace", 1}, {"command", command}, {"traces", ordered_json::array()}};
  for (const TraceReport& trace : traces) {
    ordered_json one{
        {"file", trace.file},
        {"format", trace.format},
        {"rank", optional(trace.rank)},
        {"partial", trace.partial.empty() ? ordered_json(nullptr) : ordered_json(trace.partial)},
        {"dropped_events", trace.oddities.dropped},
        {"devices", ordered_json::array()}};
    for (const DeviceReport& device : trace.devices)
      one["devices"].push_back(json_of(device, most_steps));
    out["traces"].push_back(std::move(one));
  }
  const std::optional<Straggler> slowest = straggler(traces);
  if (slowest) {
    const TraceReport& of = traces[slowest->trace];
    out["straggler"] = {{"rank", name_of(of, of.devices[slowest->device].number, traces.size())},
                        {"trace", slowest->trace},
                        {"device", slowest->device},
                        {"others_wait_ns", slowest->others_wait}};
  }
  return out;
}

std::string json_report(const std::string& command, const std::vector<TraceReport>& traces) {
  // Names were mended when they were read; file names may be anything.
  return json_tree(command, traces).dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

std::string csv_report(const std::vector<TraceReport>& traces) {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + '"';
  };
  std::string out = "file,rank,device,step,begin_ns";
  const ordered_json names = json_of(Figures{}, 1).flatten();
  for (const auto& [key, value] : names.items()) {
    std::string name = key.substr(1);
    std::ranges::replace(name, '/', '.');
    out += ',' + name;
  }
  out += '\n';
  for (const TraceReport& trace : traces) {
    for (const DeviceReport& device : trace.devices) {
      for (std::size_t i = 0; i < device.steps.all.size(); ++i) {
        const Step& step = device.steps.all[i];
        if (step.is_empty) continue;
        out += quoted(trace.file) + ',' + (trace.rank ? std::to_string(*trace.rank) : "") + ',' +
               std::to_string(device.number) + ',' + quoted(step.name) + ',' +
               std::to_string(step.device.begin);
        const ordered_json figures = json_of(device.of_steps[i], 1).flatten();
        for (const auto& [key, value] : figures.items())
          out += ',' + (value.is_null() ? "" : value.dump());
        out += '\n';
      }
    }
  }
  return out;
}

Condition parse_condition(const std::string& text) {
  const std::size_t at = text.find_first_of("<>");
  try {
    if (at == std::string::npos || at == 0) throw std::invalid_argument(text);
    Condition found{.text = text, .name = text.substr(0, at), .is_less = text[at] == '<'};
    found.bound = bound_of(text.substr(at + 1), found.name.ends_with("_ns"));
    if (is_figure(found.name)) return found;
  } catch (const std::logic_error&) {
    throw std::invalid_argument("\"" + text +
                                "\" is no condition; it is a figure of the mean step, < or >, and "
                                "a number: oe<0.9, idle.host_ns>5ms");
  }
  throw std::invalid_argument("\"" + text.substr(0, at) +
                              "\" is no figure of the mean step; --json shows their names: oe, "
                              "idle.host_ns, hidden.comm, sum.copies_ns ...");
}

std::vector<std::string> where_holds(const Condition& condition,
                                     const std::vector<TraceReport>& traces) {
  const std::string pointer = pointer_to(condition.name);
  std::vector<std::string> found;
  bool is_known = false;
  const auto check = [&](const std::string& where, const ordered_json& mean) {
    const ordered_json flat = mean.flatten();
    if (!flat.contains(pointer)) return;
    const ordered_json& value = flat[pointer];
    is_known = true;
    if (!value.is_number()) return;
    const auto number = value.get<double>();
    if (condition.is_less ? number < condition.bound : number > condition.bound) {
      found.push_back(where + ": " + condition.name + " is " + value.dump());
    }
  };
  for (const TraceReport& trace : traces) {
    for (const DeviceReport& device : trace.devices)
      check(name_of(trace, device.number, traces.size()), mean_of(device));
  }
  if (!is_known) {
    throw std::invalid_argument("\"" + condition.name +
                                "\" is a figure of the mean step, but of none in these traces");
  }
  return found;
}

}  // namespace overlap::trace
