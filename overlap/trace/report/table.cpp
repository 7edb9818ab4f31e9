#include "leat/overlap/trace/report/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "leat/overlap/trace/figures/verdict.h"
#include "leat/overlap/trace/report/json.h"

namespace overlap::trace {
namespace {

constexpr std::size_t kMostRows = 20;  // of a list
constexpr std::size_t kWidth = 78;

[[gnu::format(printf, 1, 2)]] std::string line(const char* form, ...) {
  std::array<char, 512> text{};
  std::va_list values;
  va_start(values, form);
  std::vsnprintf(text.data(), text.size(), form, values);
  va_end(values);
  return text.data();
}

double us(Time time, std::uint64_t steps = 1) {
  return static_cast<double>(time) / static_cast<double>(steps) / 1e3;
}

std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  std::string row = " ";
  for (std::string word; words >> word;) {
    if (row.size() + 1 + word.size() > kWidth) {
      out += row + '\n';
      row = " ";
    }
    row += ' ' + word;
  }
  return out + row + '\n';
}

// What a terminal would take for an order, a control of ASCII or of Latin 1, becomes '?'; a long
// name is cut, behind a whole letter.
std::string shown(const std::string& name, std::size_t most = 60) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const auto next = static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool is_latin = c == 0xC2 && next >= 0x80 && next < 0xA0;
    if (is_latin) ++i;
    out += is_latin || c < ' ' || c == 0x7F ? '?' : name[i];
  }
  if (out.size() <= most) return out;
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U) --end;
  return out.substr(0, end) + "...";
}

// The sum: compute, and the others each outside those before it.
constexpr std::array<std::pair<const char*, Part>, 5> kSum = {
    {{"compute", Part::kCompute},
     {"comm outside it", Part::kSumComm},
     {"copies outside both", Part::kSumCopies},
     {"device memory", Part::kSumMemory},
     {"other", Part::kSumOther}}};

std::string sum_of(const DeviceReport& of) {
  const Figures& mean = of.mean;
  const std::uint64_t steps = of.steps_in_mean;
  const auto row = [&](const std::string& name, Time time) {
    return line(
        "  %-22s %16.3f us  %5.1f %%\n", name.c_str(), us(time, steps),
        mean.length == 0 ? 0 : 100 * static_cast<double>(time) / static_cast<double>(mean.length));
  };
  std::string out;
  for (const auto& [name, part] : kSum) {
    if (mean[part] > 0 || part == Part::kCompute) out += row(name, mean[part]);
  }
  out += row("idle", mean.length - mean[Part::kBusy]);
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (mean.idle[i] > 0)
      out += row(std::string("  ") + name_of(static_cast<Cause>(i)), mean.idle[i]);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(of.calls.size(), 3); ++i) {
    out += line("      %-30s %12.3f us in %.6g\n", shown(of.calls[i].name, 30).c_str(),
                us(of.calls[i].time, steps),
                static_cast<double>(of.calls[i].count) / static_cast<double>(steps));
  }
  return out;
}

std::string hidden_of(const DeviceReport& of) {
  std::string out;
  const auto row = [&](const char* name, Part part, Part exposed) {
    const Time all = of.mean[part];
    out += line("  %-8s %16.3f us  exposed %16.3f us  hidden %s\n", name, us(all, of.steps_in_mean),
                us(of.mean[exposed], of.steps_in_mean),
                all == 0 ? "-"
                         : percent_text(1 - static_cast<double>(of.mean[exposed]) /
                                                static_cast<double>(all))
                               .c_str());
  };
  row("comm", Part::kComm, Part::kExposedComm);
  row("h2d", Part::kH2d, Part::kExposedH2d);
  row("d2h", Part::kD2h, Part::kExposedD2h);
  return out;
}

std::string copies_of(const DeviceReport& of) {
  std::string out;
  for (const Copies& copies : of.copies) {
    const std::optional<double> rate = copies.rate();
    out += line("  %s %-8s %8llu copies  %14llu bytes  %s", to_string(copies.direction),
                to_string(copies.memory), static_cast<unsigned long long>(copies.count),
                static_cast<unsigned long long>(copies.bytes),
                rate ? line("%.2f GB/s", *rate / 1e9).c_str() : "? GB/s");
    if (rate && of.link > 0)
      out += line(", %.0f %% of the link's %.3g GB/s", 100 * *rate / of.link, of.link / 1e9);
    out += '\n';
  }
  return out;
}

std::string streams_of(const DeviceReport& of) {
  if (of.streams.size() < 2) return "";
  std::string out;
  for (std::size_t i = 0; i < std::min(of.streams.size(), kMostRows); ++i) {
    const StreamTime& stream = of.streams[i];
    out += line("  stream %-8s %8llu ops", shown(stream.name, 12).c_str(),
                static_cast<unsigned long long>(stream.ops));
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      if (stream.of[kind] > 0)
        out += line("  %s %.3f us", to_string(static_cast<Kind>(kind)), us(stream.of[kind]));
    }
    out += '\n';
  }
  if (of.streams.size() > kMostRows)
    out += "  ... " + std::to_string(of.streams.size() - kMostRows) + " more: --json has all\n";
  return out;
}

std::string steps_of(const DeviceReport& of) {
  std::string out = "  steps: " + shown(of.steps.found_by, 200);
  if (of.steps.measured > 0) out += "; " + std::to_string(of.steps.measured) + " measured";
  if (of.steps.lead)
    out += line("; the host is %s ahead", time_text(static_cast<double>(*of.steps.lead)).c_str());
  out += '\n';
  std::size_t told = 0;
  for (std::size_t i = 0; i < of.steps.all.size(); ++i) {
    const Step& step = of.steps.all[i];
    if (told == kMostRows) {
      out += "    ... " + std::to_string(of.steps.all.size() - told) + " more: --csv has all\n";
      break;
    }
    ++told;
    out += line("    %-24s", shown(step.name, 24).c_str());
    out += step.is_empty
               ? "  no kernels\n"
               : line(" %16.3f us  OE %.4f\n", us(of.of_steps[i].length), of.of_steps[i].oe());
  }
  if (of.steps.ops_outside > 0)
    out += "    " + std::to_string(of.steps.ops_outside) + " ops begin outside the steps\n";
  return out;
}

std::string odd_of(const TraceReport& trace, const DeviceReport& of) {
  std::string out;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) out += (out.empty() ? "  note: " : ", ") + std::to_string(count) + what;
  };
  add(of.graphs, " CUDA graphs, content unseen");
  add(of.odd.overlap_in_stream, " ops begin before the one before them on the stream has ended");
  add(of.odd.equal, " equal to the one before");
  add(of.odd.before_launch, " before their launch");
  add(of.odd.without_call, " without a call in the trace");
  add(trace.oddities.dropped, " events without a time or a length left out");
  return out.empty() ? out : out + '\n';
}

std::string what_if_of(const DeviceReport& of) {
  if (of.what_if.empty()) return "";
  std::string out = "  what it would give, at best (today " +
                    line("%.3f us):\n", us(of.mean.length, of.steps_in_mean));
  for (const WhatIf& one : of.what_if) {
    out += line("    %-52s ", one.words.c_str());
    out += one.best ? line("%16.3f us\n", us(*one.best, of.steps_in_mean))
                    : "               ? (not known how fast pinned copies are, or which are)\n";
  }
  return out + wrapped(
                   "These leave out that copies slow kernels down, that an exposed copy need not "
                   "delay anything, and the idle time beside a blocking copy, which may go too.");
}

std::string device_report(const TraceReport& trace, const DeviceReport& of) {
  std::string out = wrapped(of.verdict);
  out += steps_of(of);
  out += of.steps.measured > 0 ? "  the mean step                      us\n"
                               : "  the whole span                     us\n";
  out += line("  %-22s %16.3f us\n", "Tstep", us(of.mean.length, of.steps_in_mean));
  out += sum_of(of);
  out += line("  OE %.4f: %s, measured beside copies and communication; bubble %.3f us\n", of.oe(),
              to_string(of.mean.longest()), us(of.mean.length, of.steps_in_mean) - of.most() / 1e3);
  if (of.loop) {
    out += line("  Tx %.3f us, Tc %.3f us, hidden %s of the shorter, by mean lengths\n",
                of.loop->t_x / 1e3, of.loop->t_c / 1e3, percent_text(of.loop->hidden).c_str());
  }
  out += hidden_of(of);
  if (!of.copies.empty() || of.streams.size() > 1) out += "  in the whole trace\n";
  out += copies_of(of) + streams_of(of);
  out +=
      of.steps.measured > 0 ? "  most time, of the ops of a mean step\n" : "  most time, of ops\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(of.names.size(), 10); ++i) {
    out += line("    %14.3f us in %8.6g  %s\n", us(of.names[i].time, of.steps_in_mean),
                static_cast<double>(of.names[i].count) / static_cast<double>(of.steps_in_mean),
                shown(of.names[i].name).c_str());
  }
  return out + what_if_of(of) + odd_of(trace, of);
}

std::string comparison(const DeviceReport& here, const DeviceReport& there) {
  std::string out = "us a step                    here            other       difference\n";
  const auto row = [&](const std::string& name, Time a, Time b) {
    if (a == 0 && b == 0) return;
    const double x = us(a, here.steps_in_mean);
    const double y = us(b, there.steps_in_mean);
    out += line("  %-16s %16.3f %16.3f %+16.3f\n", name.c_str(), x, y, x - y);
  };
  row("Tstep", here.mean.length, there.mean.length);
  for (const auto& [name, part] : kSum) row(name, here.mean[part], there.mean[part]);
  row("idle", here.mean.length - here.mean[Part::kBusy],
      there.mean.length - there.mean[Part::kBusy]);
  for (std::size_t i = 0; i < kCauses; ++i)
    row(std::string("  ") + name_of(static_cast<Cause>(i)), here.mean.idle[i], there.mean.idle[i]);
  out +=
      line("  %-16s %16.4f %16.4f %+16.4f\n", "OE", here.oe(), there.oe(), here.oe() - there.oe());
  std::map<std::string, std::pair<double, double>> names;
  for (const NameTime& of : here.names) names[of.name].first = us(of.time, here.steps_in_mean);
  for (const NameTime& of : there.names) names[of.name].second = us(of.time, there.steps_in_mean);
  std::vector<std::pair<std::string, std::pair<double, double>>> changed(names.begin(),
                                                                         names.end());
  std::erase_if(changed, [](const auto& of) {
    return std::abs(of.second.first - of.second.second) < 0.0005;  // printed as 0
  });
  std::ranges::stable_sort(changed, std::greater{}, [](const auto& of) {
    return std::abs(of.second.first - of.second.second);
  });
  if (!changed.empty()) out += "  ops that changed most\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(changed.size(), 10); ++i) {
    const auto& [name, times] = changed[i];
    out += line("  %16.3f %16.3f %+16.3f  %s\n", times.first, times.second,
                times.first - times.second, shown(name).c_str());
  }
  return out;
}

}  // namespace

std::string text_report(const std::vector<TraceReport>& traces) {
  std::string out;
  for (const TraceReport& trace : traces) {
    if (!trace.partial.empty()) out += "the rest of the file is missing: " + trace.partial + '\n';
    for (const DeviceReport& device : trace.devices) {
      if (!out.empty()) out += '\n';
      out += shown(name_of(trace, device.number, traces.size()), 200) +
             (device.name.empty() ? "" : " (" + shown(device.name) + ")") + ", " +
             std::to_string(device.ops) + " ops, " + trace.format + '\n' +
             device_report(trace, device);
    }
  }
  const std::optional<Straggler> slowest = straggler(traces);
  if (slowest) {
    const TraceReport& of = traces[slowest->trace];
    out +=
        "\n" + wrapped("Of the ranks, " +
                       shown(name_of(of, of.devices[slowest->device].number, traces.size()), 200) +
                       " works longest outside communication: the others wait " +
                       time_text(static_cast<double>(slowest->others_wait)) +
                       " a step for it, within communication.");
  }
  return out;
}

std::string comparison(const std::vector<TraceReport>& traces,
                       const std::vector<TraceReport>& others) {
  const auto all = [](const std::vector<TraceReport>& of) {
    std::vector<std::pair<std::string, const DeviceReport*>> found;
    for (const TraceReport& trace : of) {
      for (const DeviceReport& device : trace.devices)
        found.emplace_back(shown(trace.file + ", " + name_of(trace, device.number, 1), 200),
                           &device);
    }
    return found;
  };
  const auto here = all(traces);
  const auto there = all(others);
  std::string out;
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    out += "\nhere " + here[i].first + "; other " + there[i].first + '\n' +
           comparison(*here[i].second, *there[i].second);
  }
  if (here.size() != there.size()) {
    out +=
        "\nnot compared: " +
        std::to_string(std::max(here.size(), there.size()) - std::min(here.size(), there.size())) +
        " more devices " + (here.size() > there.size() ? "here" : "of the other") + '\n';
  }
  return out;
}

}  // namespace overlap::trace
