// What was measured, what failed, and the trace.

#include "leat/feeder/stats.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "leat/feeder/failures.h"
#include "leat/feeder/trace.h"
#include "leat/python/calls/arguments.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

using feeder::Decision;
using feeder::FailedSample;
using feeder::Limit;
using feeder::Prediction;
using feeder::Quantiles;
using feeder::StageShares;
using feeder::Stats;
using feeder::Trace;

namespace {

constexpr std::array<Choice<Limit>, 6> kLimits{{{"consumer", Limit::kConsumer},
                                                {"link", Limit::kLink},
                                                {"readers", Limit::kReaders},
                                                {"cpus", Limit::kCpus},
                                                {"device_slots", Limit::kDeviceSlots},
                                                {"pinned_slots", Limit::kPinnedSlots}}};

// A function of C++ that takes nothing but the object, as an attribute of that name.
template <class Class, class Bound, class Result>
void derived(nb::class_<Bound>& bound, const char* name, Result (Class::*function)() const,
             const char* doc) {
  bound.def_prop_ro(
      name, [function](const Class& self) { return (self.*function)(); }, doc);
}

Prediction what_if(const Stats& self, const nb::args& args, const nb::kwargs& kwargs) {
  Arguments given("Stats.what_if", {}, args, kwargs);
  feeder::Change change;
  given.read("workers", change.workers);
  given.read("device_slots", change.device_slots);
  given.read("pinned_slots", change.pinned_slots);
  given.end();
  return self.what_if(change);
}

// Puts the figures of `from` into `into`, flat.
void put_figures(nb::handle from, const std::string& prefix, nb::dict& into) {
  const nb::object names = nb::steal(PyObject_Dir(from.type().ptr()));
  for (const nb::handle name : names) {
    const std::string key = prefix + to_text(name);
    if (to_text(name).starts_with('_')) continue;
    const nb::object value = from.attr(name);
    if (nb::isinstance<Quantiles>(value) || nb::isinstance<StageShares>(value)) {
      put_figures(value, key + "_", into);
    } else if (PyFloat_Check(value.ptr()) ||
               (PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr()))) {
      into[key.c_str()] = value;
    }
  }
}

nb::dict as_dict(nb::handle self) {
  nb::dict all;
  put_figures(self, "", all);
  all["bottleneck"] = self.attr("bottleneck")();
  return all;
}

nb::str to_html(const Stats& self) {
  const InCall inside;
  const nb::object escape = nb::module_::import_("html").attr("escape");
  return nb::str("<pre>{}</pre>").format(escape(self.table()));
}

void bind_values(nb::module_& module) {
  nb::class_<StageShares>(module, "StageShares",
                          "The shares of the step in which a stage is busy, starved and blocked. "
                          "They add up to 1; all are 0 while they are not known.",
                          nb::is_final())
      .def_ro("busy", &StageShares::busy)
      .def_ro("starved", &StageShares::starved)
      .def_ro("blocked", &StageShares::blocked)
      .def_prop_ro("is_known", [](const StageShares& self) { return self.is_known(); })
      .def("__repr__", [](const StageShares& self) {
        return nb::str("<leat.StageShares: busy {:.3f}, starved {:.3f}, blocked {:.3f}>")
            .format(self.busy, self.starved, self.blocked);
      });
  nb::class_<Quantiles>(module, "Quantiles", "Quantiles of the sampled steps, in seconds.",
                        nb::is_final())
      .def_ro("p50", &Quantiles::p50)
      .def_ro("p99", &Quantiles::p99)
      .def("__repr__", [](const Quantiles& self) {
        return nb::str("<leat.Quantiles: p50 {:.3g} s, p99 {:.3g} s>").format(self.p50, self.p99);
      });
  nb::class_<Prediction>(module, "Prediction", "What would happen with other options.",
                         nb::is_final())
      .def_ro("t_step", &Prediction::t_step, "Seconds.")
      .def_ro("gain", &Prediction::gain, "How much faster the loop would be; 0.18: +18 %.")
      .def_prop_ro(
          "limit", [](const Prediction& self) { return name_in(kLimits, self.limit); },
          "What would keep the step from being shorter: \"consumer\", \"link\", \"readers\", "
          "\"cpus\", \"device_slots\" or \"pinned_slots\".")
      .def("__repr__", [](const Prediction& self) {
        return nb::str("<leat.Prediction: t_step {:.3g} s, gain {:+.1%}, limited by {}>")
            .format(self.t_step, self.gain, to_string(self.limit));
      });
  nb::class_<Decision>(module, "Decision", "A change that autotune has made.", nb::is_final())
      .def_ro("batch", &Decision::batch, "Batches staged before, over all devices.")
      .def_ro("what", &Decision::what, "\"workers\" or \"prefetch_depth\".")
      .def_ro("from_", &Decision::from, "The value before.")
      .def_ro("to", &Decision::to, "The value since.")
      .def_ro("why", &Decision::why)
      .def("__repr__", [](const Decision& self) {
        return to_str("<leat.Decision: " + self.what + " " + std::to_string(self.from) + " to " +
                      std::to_string(self.to) + " at batch " + std::to_string(self.batch) + ": " +
                      self.why + ">");
      });
}

void bind_figures(nb::module_& module) {
  nb::class_<Stats> stats(module, "Stats",
                          "A snapshot of a feed's measurements. Times are means, in seconds, and 0 "
                          "while there is no sample.",
                          nb::is_final());
  stats.def_ro("batches", &Stats::batches, "Released.")
      .def_ro("sampled_steps", &Stats::sampled_steps, "t_c and t_step are their means.")
      .def_ro("timed_copies", &Stats::timed_copies, "t_x is their mean.")
      .def_ro("reordered", &Stats::reordered, "Batches that overtook an earlier one.")
      .def_ro("most_overtaken", &Stats::most_overtaken, "The most that one batch overtook.")
      .def_ro("failed_samples", &Stats::failed_samples, "Left out, within the budgets.")
      .def_ro("workers", &Stats::workers)
      .def_ro("devices", &Stats::devices, "That share the workers.")
      .def_ro("prefetch_depth", &Stats::prefetch_depth)
      .def_ro("device_slots", &Stats::device_slots)
      .def_ro("pinned_slots", &Stats::pinned_slots)
      .def_ro(
          "past_cache_bytes", &Stats::past_cache_bytes,
          "Bytes that readers have copied past the CPU's caches, because the pinned slots are as "
          "large as the L3 cache.")
      .def_ro("batch_bytes", &Stats::batch_bytes, "Mean, as copied.")
      .def_ro("t_read", &Stats::t_read, "Reading one batch.")
      .def_ro("t_read_cpu", &Stats::t_read_cpu, "CPU time within t_read.")
      .def_ro("cpus", &Stats::cpus, "CPUs that readers may use; 0: no limit.")
      .def_ro("cold_bytes", &Stats::cold_bytes, "Of a batch, that the disk had to fetch.")
      .def_ro("hot_bytes", &Stats::hot_bytes, "The rest of batch_bytes.")
      .def_ro("major_faults", &Stats::major_faults, "Of a reader, in a batch.")
      .def_ro("t_x", &Stats::t_x, "Copying one batch.")
      .def_ro("t_c", &Stats::t_c, "The work on one batch.")
      .def_ro("t_step", &Stats::t_step)
      .def_ro("t_step_error", &Stats::t_step_error, "The standard error of t_step.")
      .def_ro("samples_per_second", &Stats::samples_per_second)
      .def_ro("idle_ends", &Stats::idle_ends,
              "The share of t_c of steps at whose end the device had nothing left to do.")
      .def_ro("step", &Stats::step, "Quantiles of t_step.")
      .def_ro("bubble", &Stats::bubble, "Quantiles of t_step - max(t_c, t_x).")
      .def_ro("reader", &Stats::reader)
      .def_ro("copier", &Stats::copier)
      .def_ro("consumer", &Stats::consumer)
      .def_ro("decided", &Stats::decided, "Changes that autotune has made.")
      .def_prop_ro(
          "decisions",
          [](const Stats& self) {
            nb::list decisions;
            for (const Decision& one : self.decisions) decisions.append(one);
            return decisions;
          },
          "The latest of these changes.");
  derived(stats, "is_measured", &Stats::is_measured,
          "Whether a step was sampled and a copy timed.");
  derived(stats, "t_c_is_upper_bound", &Stats::t_c_is_upper_bound,
          "Whether t_c has what the host does in it, because idle_ends is above 0.1.");
  derived(stats, "overlap_efficiency", &Stats::overlap_efficiency, "max(t_c, t_x) / t_step.");
  derived(stats, "feed_efficiency", &Stats::feed_efficiency,
          "max(t_read * devices / workers, t_x, t_c) / t_step.");
  derived(stats, "hidden_fraction", &Stats::hidden_fraction,
          "(t_c + t_x - t_step) / min(t_c, t_x), between 0 and 1.");
  derived(stats, "read_cpu_per_gb", &Stats::read_cpu_per_gb,
          "CPU seconds that readers compute for 1e9 bytes.");
  stats
      .def("what_if", &what_if,
           nb::sig("def what_if(self, *, workers: int = 0, device_slots: int = 0, pinned_slots: "
                   "int = 0) -> Prediction"),
           "What a step would take with other options; 0: unchanged. device_slots is max_leases + "
           "prefetch_depth - 1.")
      .def("bottleneck", &Stats::bottleneck,
           "One sentence: which stage limits the loop, what would help, and how much.")
      .def("as_dict", &as_dict,
           "The figures by name, for loggers: ints and floats, and the sentence \"bottleneck\". Of "
           "an "
           "object, as \"step_p50\" and \"reader_busy\".")
      .def("shares_table", &Stats::shares_table, "The stages' shares, as a table.")
      .def("table", &Stats::table, "All stages, times and the bottleneck, in several lines.")
      .def("_repr_html_", &to_html, "For notebooks.")
      .def("__repr__", [](const Stats& self) {
        return "<leat.Stats of " + std::to_string(self.batches) + " batches: " + self.bottleneck() +
               ">";
      });
}

void bind_trace(nb::module_& module) {
  nb::class_<Trace>(module, "Trace",
                    "Records what batches of one Prefetcher went through, for a timeline viewer: "
                    "Perfetto, or chrome://tracing.",
                    nb::is_final())
      .def(
          "__init__",
          [](Trace* self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given("Trace", {}, args, kwargs);
            feeder::TraceOptions options;
            given.read("skip", options.skip);
            given.read("batches", options.batches);
            given.end();
            new (self) Trace(options);
          },
          nb::sig("def __init__(self, *, skip: int = 0, batches: int = 64) -> None"),
          "Leaves out the first `skip` batches and records the next `batches`, 1 to 100,000.")
      .def("json", &Trace::json, nb::call_guard<WithoutGil>(),
           "The batches recorded so far. Work that the device has not finished is left out.")
      .def(
          "save",
          [](const Trace& self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given("Trace.save", {"file"}, args, kwargs);
            given.require({"file"});
            const std::filesystem::path file = given.path("file");
            given.end();
            const WithoutGil others_run;
            self.save(file);
          },
          nb::sig("def save(self, file: Path) -> None"), "Writes json() to a file.")
      .def(
          "timeline",
          [](const Trace& self, const nb::args& args, const nb::kwargs& kwargs) {
            Arguments given("Trace.timeline", {}, args, kwargs);
            feeder::TimelineOptions options;
            double length = 0;
            given.read("steps", options.steps);
            given.read("length", length);
            given.read("columns", options.columns);
            given.end();
            constexpr double kLongest = 1e9;
            if (!(length >= 0 && length <= kLongest)) {
              throw nb::value_error("leat.Trace.timeline: length has to be 0 to 1e9 seconds");
            }
            options.length =
                std::chrono::duration_cast<Duration>(std::chrono::duration<double>(length));
            const WithoutGil others_run;
            return self.timeline(options);
          },
          nb::sig(
              "def timeline(self, *, steps: int = 3, length: float = 0, columns: int = 80) -> str"),
          "Some successive steps as text: bars for copies and for the work on batches. Timelines "
          "with the same `length`, in seconds, have the same scale; 0 is that of the steps.");
}

}  // namespace

void bind_stats(nb::module_& module) {
  bind_values(module);
  bind_figures(module);
  nb::class_<FailedSample>(module, "FailedSample",
                           "A sample that was left out because it failed, within the budget.",
                           nb::is_final())
      .def_prop_ro(
          "stage", [](const FailedSample& self) { return to_string(self.stage); },
          "\"read\" or \"transform\".")
      .def_ro("epoch", &FailedSample::epoch)
      .def_ro("batch", &FailedSample::batch, "The batch that lacks the sample.")
      .def_ro("sample", &FailedSample::sample, "The sample's number in the dataset.")
      .def_prop_ro("error", [](const FailedSample& self) { return to_str(self.error); })
      .def("__repr__", [](const FailedSample& self) {
        return to_str("<leat.FailedSample " + std::to_string(self.sample) + " of epoch " +
                      std::to_string(self.epoch) + ", batch " + std::to_string(self.batch) + ", " +
                      to_string(self.stage) + ": " + self.error + ">");
      });
  bind_trace(module);
}

}  // namespace leat::python
