#include "leat/overlap/trace/figures/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "leat/overlap/trace/figures/analysis.h"

namespace overlap::trace {
namespace {

// With three digits.
std::string number_text(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

const char* words_of(Kind kind) {
  switch (kind) {
    case Kind::kCompute: return "compute";
    case Kind::kComm: return "communication";
    case Kind::kH2d: return "copies to the device";
    case Kind::kD2h: return "copies to the host";
    default: return to_string(kind);
  }
}

// What idle time asks for.
const char* advice(Cause cause, bool is_loop) {
  if (is_loop && cause == Cause::kData) return "more workers, or reads that cost less";
  if (is_loop && cause == Cause::kHost) return "the consumer does something else between batches";
  switch (cause) {
    case Cause::kData: return "read further ahead: more workers, or a prefetcher that copies, too";
    case Cause::kSync:
      return "the host waits for the device and launches nothing meanwhile: fewer .item(), .cpu() "
             "and synchronize() in the loop";
    case Cause::kCalls: return "calls of the runtime hold the launches up: see which, below";
    case Cause::kHost:
      return "the host is too slow to keep the device busy: CUDA graphs, torch.compile, larger "
             "batches";
    case Cause::kLaunching:
      return "launches take longer than what they launch: CUDA graphs, larger kernels";
    case Cause::kNotStarted:
      return "ops wait behind their launch, for an event, a peer or the device's latency";
    case Cause::kUnknown:
      return "the trace does not tell what launched these ops: record the CUDA runtime's calls, "
             "too";
    case Cause::kTail: return "after the last op nothing was launched";
  }
  return "";
}

}  // namespace

std::string time_text(double nanoseconds) {
  const double size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  if (size >= 999.5e6) return number_text(nanoseconds / 1e9) + " s";
  if (size >= 999.5e3) return number_text(nanoseconds / 1e6) + " ms";
  if (size >= 999.5) return number_text(nanoseconds / 1e3) + " us";
  return number_text(nanoseconds) + " ns";
}

std::string percent_text(double part) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * part);
  return text.data();
}

double link_of(std::string_view device) noexcept {
  // PCI Express, 16 lanes, one way: generation 3, 4, 5; NVLink-C2C of the superchips.
  constexpr double k3 = 15.75e9;
  constexpr double k4 = 31.5e9;
  constexpr double k5 = 63e9;
  constexpr double kC2c = 450e9;
  constexpr std::array<std::pair<std::string_view, double>, 24> kLinks = {{
      {"GH200", kC2c},
      {"GB200", kC2c},
      {"GB300", kC2c},
      {"B200", k5},
      {"B300", k5},
      {"H100", k5},
      {"H200", k5},
      {"H800", k5},
      {"H20", k5},
      {"A100", k4},
      {"A800", k4},
      {"A10", k4},
      {"A30", k4},
      {"A40", k4},
      {"L40", k4},
      {"L4", k4},
      {"GeForce RTX 50", k5},
      {"GeForce RTX 40", k4},
      {"GeForce RTX 30", k4},
      {"RTX A", k4},
      {"V100", k3},
      {"P100", k3},
      {"T4", k3},
      {"MI250", k4},
  }};
  for (const auto& [name, link] : kLinks) {
    if (device.find(name) != std::string_view::npos) return link;
  }
  return device.find("MI300") != std::string_view::npos ? k5 : 0;
}

std::string verdict(const DeviceReport& report) {
  const Figures& mean = report.mean;
  const auto steps = static_cast<double>(report.steps_in_mean);
  const auto of_step = [&](Time time) { return time_text(static_cast<double>(time) / steps); };
  const auto share = [&](Time time) {
    return percent_text(
        mean.length == 0 ? 0 : static_cast<double>(time) / static_cast<double>(mean.length));
  };
  const Kind longest = mean.longest();
  const bool has_steps = report.steps.measured > 0;
  std::string text = (has_steps ? "A step takes " : "The span is ") + of_step(mean.length) +
                     ". The longest of compute, communication and copies is " + words_of(longest) +
                     ": " + time_text(report.most()) + ", so OE is " + number_text(report.oe()) +
                     ".";
  // What adds up to the rest of the step, the largest first.
  struct Loss {
    Time time;
    std::string words;
  };
  std::vector<Loss> losses;
  if (longest != Kind::kComm)
    losses.push_back({mean[Part::kExposedComm], " of communication is not hidden behind compute"});
  const bool is_link = longest == Kind::kH2d || longest == Kind::kD2h;
  if (!is_link)
    losses.push_back({mean[Part::kExposedCopies], " of copies is not hidden behind compute"});
  for (std::size_t i = 0; i < kCauses; ++i) {
    losses.push_back(
        {mean.idle[i], std::string(" is idle (") + name_of(static_cast<Cause>(i)) +
                           "): " + advice(static_cast<Cause>(i), report.loop.has_value())});
  }
  std::ranges::stable_sort(losses, std::greater{}, &Loss::time);
  if (is_link && report.oe() >= 0.9) {
    text += " The link is the limit: hiding every copy gives at best " +
            of_step(std::max(mean.length - mean[Part::kExposedCopies], mean.most())) +
            (has_steps ? " a step" : "") + ". Copy less, or over a faster link.";
  } else if (report.oe() >= 0.95) {
    text += " That is the limit; the rest is little.";
  }
  std::size_t told = 0;
  for (const Loss& loss : losses) {
    if (told == 2 || static_cast<double>(loss.time) < 0.02 * static_cast<double>(mean.length))
      break;
    text += " " + of_step(loss.time) + " (" + share(loss.time) + ")" + loss.words + ".";
    ++told;
  }
  return text;
}

}  // namespace overlap::trace
