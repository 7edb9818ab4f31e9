#include "leat/feeder/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "leat/feeder/stats/figures.h"

namespace leat::feeder {
namespace {

// A mean step is uncertain if its standard error is a larger share.
constexpr double kUncertain = 0.02;

// "4.4 % of the step, is ahead 95.6 %". What is less than a hundredth is left out: of so
// little, a measurement of some steps says nothing.
std::string words_of(const StageShares& shares, const char* blocked, const char* of = "") {
  if (!shares.is_known()) return "?";
  const auto more = [](const char* what, double share) {
    return share < 0.01 ? std::string() : std::string(", ") + what + " " + percent_text(share);
  };
  return percent_text(shares.busy) + of + more("waits", shares.starved) +
         more(blocked, shares.blocked);
}

// "  copier     Tx    3.34 us     works ..."
std::string row(const char* stage, const std::string& time, const std::string& words) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "  %-11s%-*s", stage, time.empty() ? 0 : 18,
                (time.empty() ? time : time + " ").c_str());
  return text.data() + words + "\n";
}

// A row for each stage, in the order in which a batch goes through them.
std::string rows_of(const Stats& stats, const std::string& t_read, const std::string& t_x,
                    const std::string& t_c) {
  const std::string most = stats.t_c_is_upper_bound() ? "works at most " : "works ";
  return row("reader", t_read, "works " + words_of(stats.reader, "is ahead", " of the step")) +
         row("copier", t_x, "works " + words_of(stats.copier, "is ahead")) +
         row("consumer", t_c, most + words_of(stats.consumer, "does other things"));
}

// OE, the bubble, and how much of the shorter time is hidden, as far as they say something.
std::string efficiency_text(const Stats& stats) {
  const double t_c = stats.t_c;
  const double t_x = stats.t_x;
  const std::string why_not = why_no_efficiency(t_c, t_x, stats.t_step);
  if (!why_not.empty()) return paragraph(why_not);
  const double longer = std::max(t_c, t_x);
  const double shorter = std::min(t_c, t_x);
  const bool is_bound = stats.t_c_is_upper_bound();
  const bool is_lower = is_bound && t_c > t_x;
  std::string text = "  OE = max(Tc, Tx) / Tstep = ";
  if (is_lower) text += number_text(t_x / stats.t_step) + " to ";
  text += number_text(stats.overlap_efficiency()) + "   bubble " + (is_lower ? ">= " : "") +
          time_text(std::max(stats.t_step - longer, 0.0));
  if (shorter >= kLittle * longer) {
    text += std::string("   hidden ") + (is_bound ? "<= " : "") +
            percent_text(stats.hidden_fraction()) + " of " + (t_x <= t_c ? "Tx" : "Tc");
  }
  return text + "\n";
}

}  // namespace

bool Stats::t_c_is_upper_bound() const noexcept {
  constexpr double kMuch = 0.1;
  return idle_ends > kMuch;
}

double Stats::overlap_efficiency() const noexcept {
  return is_measured() ? std::max(t_c, t_x) / t_step : 0;
}

double Stats::feed_efficiency() const noexcept {
  if (!is_measured()) return 0;
  const double read = t_read * static_cast<double>(devices) / static_cast<double>(workers);
  return std::max({read, t_x, t_c}) / t_step;
}

double Stats::hidden_fraction() const noexcept {
  if (!is_measured()) return 0;
  const double shorter = std::min(t_c, t_x);
  return shorter > 0 ? std::clamp((t_c + t_x - t_step) / shorter, 0.0, 1.0) : 1;
}

double Stats::read_cpu_per_gb() const noexcept {
  return batch_bytes > 0 ? 1e9 * t_read_cpu / batch_bytes : 0;
}

bool Stats::waits_for_disk() const noexcept {
  const bool is_cold = (cold_bytes > 0 && 8 * cold_bytes >= batch_bytes) || major_faults >= 1;
  const bool computes = t_read_cpu * static_cast<double>(devices) >=
                        0.75 * static_cast<double>(cpus == 0 ? workers : cpus) * t_step;
  return is_cold && t_read_cpu <= 0.75 * t_read && !computes;
}

double Stats::disk_rate() const noexcept {
  return t_step > 0 ? cold_bytes * static_cast<double>(devices) / t_step : 0;
}

const char* to_string(Limit limit) noexcept {
  switch (limit) {
    case Limit::kConsumer: return "the consumer";
    case Limit::kLink: return "the link";
    case Limit::kReaders: return "the readers";
    case Limit::kCpus: return "the CPUs that read";
    case Limit::kDeviceSlots: return "the number of device slots";
    case Limit::kPinnedSlots: return "the number of pinned slots";
  }
  return "?";
}

namespace {

// Returns the predicted step, by the formula, and which of its terms is the longest.
Prediction predict(const Stats& stats, const Change& change) noexcept {
  const auto over = [](double time, std::size_t count) {
    return count == 0 ? 0.0 : time / static_cast<double>(count);
  };
  const double read = stats.t_read * static_cast<double>(stats.devices);
  const std::array<std::pair<Limit, double>, 6> terms = {{
      {Limit::kConsumer, stats.t_c + stats.consumer.blocked * stats.t_step},
      {Limit::kLink, stats.t_x},
      {Limit::kReaders, over(read, change.workers)},
      {Limit::kCpus, over(stats.t_read_cpu * static_cast<double>(stats.devices), stats.cpus)},
      {Limit::kDeviceSlots, over(stats.t_x + stats.t_c, change.device_slots)},
      {Limit::kPinnedSlots, over(stats.t_read + stats.t_x, change.pinned_slots)},
  }};
  double most = 0;
  for (const auto& [limit, time] : terms) most = std::max(most, time);
  // The first of the terms that are the longest, to within rounding.
  const auto* const longest = std::ranges::find_if(
      terms, [&](const auto& term) { return term.second >= (1 - 1e-6) * most; });
  return {.t_step = most, .gain = 0, .limit = longest->first};
}

// Returns the fewest workers with which reading no longer limits the loop.
std::size_t enough_workers(const Stats& stats) {
  const double others =
      predict(stats, {.workers = 0, .device_slots = stats.device_slots, .pinned_slots = 0}).t_step;
  const double read = stats.t_read * static_cast<double>(stats.devices);
  constexpr double kMost = 1024;
  const double enough = others > 0 ? std::ceil(0.999 * read / others) : kMost;
  return static_cast<std::size_t>(std::clamp(enough, 1.0, kMost));
}

// "+18 %"
std::string gain_text(double gain) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.0f %%", 100 * gain);
  return text.data();
}

// "4 workers instead of 1: +180 %, then the link limits it at 400 ns a step"
std::string advice(const Stats& stats, const Change& change) {
  const auto said = [](std::size_t now, std::size_t then, const char* what) {
    return then == 0 || then == now
               ? std::string()
               : std::to_string(then) + " " + what + " instead of " + std::to_string(now);
  };
  std::string text = said(stats.workers, change.workers, "workers");
  for (const std::string& more : {said(stats.device_slots, change.device_slots, "device slots"),
                                  said(stats.pinned_slots, change.pinned_slots, "pinned slots")}) {
    text += (text.empty() || more.empty() ? "" : " and ") + more;
  }
  const Prediction then = stats.what_if(change);
  return text + ": " + gain_text(then.gain) + ", then limited by " + to_string(then.limit) +
         ", at " + time_text(then.t_step) + " a step";
}

}  // namespace

Prediction Stats::what_if(const Change& change) const noexcept {
  if (!is_measured()) return {};
  const Change today{
      .workers = workers, .device_slots = device_slots, .pinned_slots = pinned_slots};
  const auto given = [](std::size_t value, std::size_t otherwise) {
    return value == 0 ? otherwise : value;
  };
  const double now = predict(*this, today).t_step;
  Prediction then = predict(*this, {.workers = given(change.workers, workers),
                                    .device_slots = given(change.device_slots, device_slots),
                                    .pinned_slots = given(change.pinned_slots, pinned_slots)});
  if (now <= 0 || then.t_step <= 0) return {.t_step = t_step, .gain = 0, .limit = then.limit};
  then.gain = now / then.t_step - 1;
  then.t_step = t_step * then.t_step / now;
  return then;
}

std::string Stats::bottleneck() const {
  if (t_step <= 0)
    return "No step was sampled. A step leads from one batch to the next one of its epoch; of "
           "those "
           "on a stream, one in sample_every is sampled.";
  if (!is_measured()) {
    return "No copy was timed (one in sample_every is): what limits the loop is not known.";
  }
  // A stage that is busy for less than this share of the step does not limit the loop.
  constexpr double kSaturated = 0.9;
  const double read = t_read * static_cast<double>(devices) / static_cast<double>(workers);
  // If Tc is an upper bound, a stage that is certainly busy goes before the consumer.
  const double certain = std::max(read, t_x);
  const bool is_other = t_c_is_upper_bound() && certain >= kSaturated * t_step;
  const double most = is_other ? certain : std::max(certain, t_c);
  const std::string share = percent_text(std::min(most / t_step, 1.0)) + " of the step";
  if (device_slots == 1 && t_x + t_c > kSaturated * t_step) {
    const Prediction two = what_if({.device_slots = 2});
    const bool overlap_limits = two.limit == Limit::kConsumer || two.limit == Limit::kLink;
    if (most < kSaturated * t_step || two.gain >= 0.02) {
      return "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, and "
             "a step takes " +
             (overlap_limits ? "max(Tc, Tx) = " + time_text(std::max(t_c, t_x))
                             : time_text(two.t_step)) +
             " instead of " + time_text(t_step) + ".";
    }
  }
  if (most < kSaturated * t_step) {
    if (consumer.busy + consumer.blocked >= kSaturated) {
      return "The rest of the loop limits it: " + percent_text(consumer.blocked) +
             " of the step pass between the release of a batch and the request of the next, Tc "
             "is " +
             (t_c_is_upper_bound() ? "at most " : "") + percent_text(consumer.busy) + ".";
    }
    const Change more_pinned{.pinned_slots = pinned_slots + workers};
    const Change more_device{.device_slots = device_slots + 1};
    const Change& better =
        what_if(more_pinned).gain >= what_if(more_device).gain ? more_pinned : more_device;
    const std::string begin = "No stage is saturated (the busiest takes " + share +
                              "): the time goes into waiting for each other; ";
    if (what_if(better).gain < 0.02) {
      return begin + "a larger prefetch_depth or more CPUs may help.";
    }
    return begin + advice(*this, better) + ".";
  }
  if (most == t_c) {
    const std::string begin = "The consumer limits the loop (Tc is ";
    const std::string hidden = device_slots == 1
                                   ? "): reading is hidden behind it, copying is short"
                                   : "): reading and copying are hidden behind it";
    if (!t_c_is_upper_bound()) return begin + share + hidden + ", and only a faster step helps.";
    return begin + "at most " + share + hidden +
           ". How long the device works is not known: it had nothing left to do at the end of "
           "steps that take " +
           percent_text(idle_ends) +
           " of the time, and their Tc includes what the host did until then. Release a batch, or "
           "ask for the next one, as soon as the work on it is enqueued: then Tc is the device's "
           "work.";
  }
  if (most == t_x) {
    return "The link limits the loop (Tx is " + share +
           "): fewer bytes per sample, or a faster link, would help.";
  }
  // Each worker fills one slot at a time.
  const std::size_t enough = std::max(enough_workers(*this), workers + 1);
  const Change more{.workers = enough, .pinned_slots = pinned_slots + enough - workers};
  if (waits_for_disk()) {
    return "The disk limits the loop: it delivers " + bytes_text(disk_rate()) +
           "/s, and the readers wait for it (Tread / workers is " + share +
           ", and they compute for " + percent_text(t_read_cpu / t_read) +
           " of that). Data in memory, or a faster disk, would help; more workers only if the disk "
           "gives more to them" +
           (is_other ? "." : "; at most, " + advice(*this, more) + ".");
  }
  const std::string begin = "The readers limit the loop (Tread / workers is " + share + "): ";
  if (is_other) {
    return begin +
           "more of them, or a faster dataset, would help. How much is not known, because Tc is "
           "only known to be at most " +
           time_text(t_c) + ".";
  }
  if (what_if(more).gain < 0.02) {
    return begin + to_string(what_if(more).limit) +
           " would limit more of them too; a faster dataset would help.";
  }
  return begin + advice(*this, more) + "; or a faster dataset.";
}

std::string Stats::shares_table() const { return rows_of(*this, "", "", ""); }

std::string Stats::table() const {
  if (sampled_steps == 0) {
    return paragraph(bottleneck() + " (" + std::to_string(batches) + " batches were released.)");
  }
  const std::string at_most = t_c_is_upper_bound() ? "<= " : "";
  std::string text = paragraph(bottleneck());
  text += row("a step", "Tstep " + time_text(t_step),
              (sampled_steps < 100 ? "at most " : "99 of 100 at most ") + time_text(step.p99) +
                  "; " + std::to_string(sampled_steps) + " of " + std::to_string(batches) +
                  " steps were sampled");
  text += rows_of(*this,
                  "Tread " + (reader.is_known() ? time_text(t_read) : "?") +
                      (workers == 1 ? "" : " / " + std::to_string(workers)),
                  "Tx    " + (is_measured() ? time_text(t_x) : "?"),
                  "Tc    " + at_most + time_text(t_c));
  if (is_measured()) text += efficiency_text(*this);
  if (t_step_error > kUncertain * t_step) {
    text += paragraph("The sampled steps differ: Tstep is known to " +
                      percent_text(t_step_error / t_step) +
                      " (standard error); more steps, or a smaller sample_every, tell more.");
  }
  if ((1000 * cold_bytes >= batch_bytes && cold_bytes > 0) || major_faults >= 1) {
    text += "  read from the disk " + bytes_text(cold_bytes) + " a batch (" +
            bytes_text(disk_rate()) + "/s), from memory " + bytes_text(hot_bytes) + "; " +
            number_text(major_faults) + " major faults a batch\n";
  }
  return text + copies_text();
}

}  // namespace leat::feeder
