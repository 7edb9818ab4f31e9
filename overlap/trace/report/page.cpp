#include "leat/overlap/trace/report/page.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "leat/overlap/page.h"
#include "leat/overlap/report_html.h"
#include "leat/overlap/trace/report/json.h"

namespace overlap::trace {
namespace {

using nlohmann::ordered_json;

// How much a page shows.
struct Limits {
  std::size_t steps;
  std::size_t list;   // entries of any other list
  std::size_t bytes;  // of a text
  Time columns;       // of a timeline
  std::size_t ranks;  // files, devices of each
};

constexpr unsigned kRounds = 16;
// Of each round half of the one before; ranks are left out last.
Limits limits_of(unsigned round) {
  const auto halved = [&](unsigned first, std::size_t from, std::size_t least) {
    return std::max(round < first ? from : from >> (round - first), least);
  };
  return {.steps = halved(0, 512, 2),
          .list = halved(0, 128, 4),
          .bytes = halved(0, 512, 64),
          .columns = static_cast<Time>(halved(0, kColumns, 40)),
          .ranks = halved(6, 1024, 1)};
}

bool is_ranks(std::string_view key) { return key == "traces" || key == "devices"; }

// Whole letters of UTF-8, of which the first `most` bytes have some.
void cut(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  text.resize(most);
  text += "…";
}

// Steps are thinned already. The verdict and what is like it is no name, and not cut short.
void thin(ordered_json& value, const Limits& limits) {
  if (value.is_string()) cut(value.get_ref<std::string&>(), limits.bytes);
  if (!value.is_structured()) return;
  std::vector<std::pair<std::string, std::size_t>> thinned;
  for (const auto& [key, of] : value.items()) {
    const std::size_t most = is_ranks(key) ? limits.ranks : limits.list;
    if (of.is_array() && key != "steps" && of.size() > most) {
      thinned.emplace_back(key + "_thinned", of.size());
      of.erase(of.begin() + static_cast<std::ptrdiff_t>(most), of.end());
    }
    if (key != "verdict") thin(of, limits);
  }
  for (const auto& [key, count] : thinned) value[key] = count;
}

// [from the window's begin, length, what, name]; of several ops, their number and the time in which
// one runs, too.
ordered_json json_of(const Timeline& of, const Limits& limits) {
  const auto cut_to = [&](std::string text) {
    cut(text, limits.bytes);
    return text;
  };
  ordered_json out{{"which", of.which},
                   {"step", cut_to(of.step)},
                   {"length_ns", of.window.end - of.window.begin},
                   {"names", ordered_json::array()},
                   {"lanes", ordered_json::array()}};
  const Time column = std::max<Time>((of.window.end - of.window.begin) / limits.columns, 1);
  bool is_merged = false;
  std::map<std::uint32_t, std::size_t> names;
  for (std::size_t i = 0; i < of.lanes.size(); ++i) {
    const Lane& lane = of.lanes[i];
    if (i >= limits.list && !lane.is_idle) {
      out["lanes_thinned"] = of.lanes.size();
      continue;
    }
    ordered_json segments = ordered_json::array();
    for (const Segment& segment : merged(lane.segments, column)) {
      std::size_t name = 0;
      if (!lane.is_idle) {
        const auto [at, is_new] = names.emplace(segment.name, names.size());
        if (is_new) out["names"].push_back(cut_to(of.names[segment.name]));
        name = at->second;
      }
      ordered_json one{segment.begin - of.window.begin, segment.end - segment.begin, segment.what,
                       name};
      if (segment.count > 1) {
        is_merged = true;
        one.push_back(segment.count);
        one.push_back(segment.busy);
      }
      segments.push_back(std::move(one));
    }
    out["lanes"].push_back({{"name", cut_to(lane.name)},
                            {"is_idle", lane.is_idle},
                            {"segments", std::move(segments)}});
  }
  if (is_merged) out["merged_below_ns"] = 2 * column;
  return out;
}

std::string data_of(const std::string& command, const std::vector<TraceReport>& traces,
                    const Limits& limits) {
  ordered_json data = json_tree(command, traces, limits.steps);
  thin(data, limits);
  for (std::size_t i = 0; i < kKinds; ++i) data["kinds"].push_back(to_string(static_cast<Kind>(i)));
  for (std::size_t i = 0; i < kCauses; ++i) data["kinds"].push_back(key_of(static_cast<Cause>(i)));
  for (std::size_t t = 0; t < data["traces"].size(); ++t) {
    ordered_json& devices = data["traces"][t]["devices"];
    for (std::size_t d = 0; d < devices.size(); ++d) {
      for (const Timeline& of : traces[t].devices[d].timelines)
        devices[d]["timelines"].push_back(json_of(of, limits));
    }
  }
  return in_script(data.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace

std::string html_report(const std::string& command, const std::vector<TraceReport>& traces) {
  for (unsigned round = 0;;) {
    std::string page;
    std::string_view rest = kTraceHtml;
    fill(page, rest, "/*@PALETTE@*/", kPalette);
    fill(page, rest, "@DATA@", data_of(command, traces, limits_of(round)));
    page.append(rest);
    // The last round shows one device of one file.
    if (page.size() <= kMostPage || round == kRounds) return page;
    for (std::size_t size = page.size(); size > kMostPage && round < kRounds; size /= 2) ++round;
  }
}

}  // namespace overlap::trace
