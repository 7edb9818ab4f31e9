// Binds leat._core.Prefetcher. leat/_core.pyi says more of each function.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "leat/feeder/failures.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/feeder/stats.h"
#include "leat/python/calls/collected.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/loops/loop.h"
#include "leat/python/loops/prefetcher.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

// The object behind `self`. Throws TypeError before its __init__, which a subclass may have left
// out.
PrefetcherObject& made(nb::handle self) {
  if (!nb::inst_ready(self)) {
    throw nb::type_error("leat: Prefetcher.__init__() was not called, or has failed");
  }
  return *nb::inst_ptr<PrefetcherObject>(self);
}

std::uint64_t epoch_of(nb::handle number) {
  const bool is_whole = PyIndex_Check(number.ptr()) != 0 && !nb::isinstance<nb::bool_>(number);
  const nb::object index = is_whole ? nb::steal(PyNumber_Index(number.ptr())) : nb::object();
  if (!index.is_valid()) {
    PyErr_Clear();
    throw nb::type_error(
        (std::string("epoch has to be an int of at least 0, not ") + nb::repr(number).c_str())
            .c_str());
  }
  const std::uint64_t value = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred() != nullptr || value > feeder::kLastEpoch) {
    PyErr_Clear();
    throw nb::value_error(
        (std::string("leat: there is no epoch ") + nb::repr(number).c_str()).c_str());
  }
  return value;
}

nb::str repr_of(const PrefetcherObject& self) {
  const feeder::Dataset& data = to_dataset(self.dataset());
  const nb::object& framework = self.framework();
  const std::string text =
      std::string("<leat.Prefetcher of ")
          .append(data.name())
          .append(" on ")
          .append(self.device().name())
          .append(self.has_length()
                      ? ": " + std::to_string(self.batches_per_epoch()) + " batches of " +
                            std::to_string(self.options().batch_size) + " an epoch"
                      : std::string())
          .append(", framework ")
          .append(nb::repr(framework.attr("name")).c_str())
          .append(">");
  return to_str(text);  // a dataset is named after files, whose names may be any bytes
}

// Calls a const function of the prefetcher without the GIL.
template <class Result>
Result ask(const PrefetcherObject& self, Result (feeder::Prefetcher::*function)() const) {
  const Feeding::Call call(self.feeding());
  const nb::gil_scoped_release others_run;
  return (call.operator->()->*function)();
}

}  // namespace

void bind_prefetcher(nb::module_& module) {
  nb::set_leak_warnings(false);  // at exit, a daemon thread's frame has its objects still
  nb::class_<PrefetcherObject>(module, "Prefetcher", nb::type_slots(kCollected<PrefetcherObject>))
      .def(nb::init<nb::object, const std::string&, const nb::object&, const nb::dict&, bool,
                    std::optional<double>>(),
           nb::arg("dataset"), nb::arg("device"), nb::arg("framework").none(), nb::arg("options"),
           nb::arg("copies_escapes"), nb::arg("timeout").none())
      .def(
          "epoch",
          [](nb::object self, nb::handle number) {
            static_cast<void>(made(self));
            const std::uint64_t checked = epoch_of(number);
            return Epoch(std::move(self), checked);
          },
          nb::arg("number").none(),
          "The batches of one epoch: for a loop, which begins it, or for a with block.")
      .def(
          "__iter__",
          [](nb::handle self) {
            return make_loop(self, made(self).next_epoch(), Loop::Leaving::kDropped);
          },
          "Begins the next epoch.")
      .def(
          "peek", [](nb::handle self) { return made(self).peek(self); },
          "A copy of the batch that comes next. It is delivered all the same, and counts nowhere.")
      .def(
          "__len__",
          [](const PrefetcherObject& self) {
            self.require_length();
            return self.batches_per_epoch();
          },
          "Batches of a whole epoch. TypeError for a dataset with __iter__.")
      .def("__repr__", &repr_of)
      .def_prop_ro(
          "next_epoch", &PrefetcherObject::next_epoch,
          "The epoch that iter() begins: that of a resumed state, or 0; then the one after "
          "the last that was begun.")
      .def_prop_ro("copies", &PrefetcherObject::copies,
                   "How many batches were copied, because too many were held.")
      .def_prop_ro("dataset", &PrefetcherObject::dataset)
      .def_prop_ro(
          "device", [](const PrefetcherObject& self) { return self.device().name(); },
          "The name of the device that has the batches.")
      .def("state", &PrefetcherObject::state, nb::arg("in_hand"), "The text in state_dict().")
      .def("load", &PrefetcherObject::load, nb::arg("state"), nb::arg("accept_dataset") = false,
           "As load_state_dict(), of the text.")
      .def(
          "draw",
          [](const PrefetcherObject& self, const nb::bytes& keys, std::uint32_t kind,
             std::size_t rows) {
            Feeding::Call(self.feeding())
                ->rank(0)
                .draw({.bytes = {keys.c_str(), keys.size()}, .kind = kind, .rows = rows});
          },
          nb::arg("keys"), nb::arg("kind"), nb::arg("rows"),
          "The next batch of the epoch that has begun, with order=\"drawn\". Private.")
      .def(
          "end_draws",
          [](const PrefetcherObject& self) { Feeding::Call(self.feeding())->rank(0).end_draws(); },
          "There are no more. Private.")
      .def("read_in_caller", &PrefetcherObject::read_in_caller, nb::arg("step"),
           "Who asks for a batch makes it, by step(). Private.")
      .def("close", &PrefetcherObject::close,
           "Ends the feed: a call of another thread raises, and so do later ones. Waits for the "
           "reads that are under way, and ends its threads. Batches stay as they are.")
      .def(
          "stats",
          [](const PrefetcherObject& self) { return ask(self, &feeder::Prefetcher::stats); },
          "What was measured since the beginning, or since reset_stats().")
      .def(
          "reset_stats",
          [](const PrefetcherObject& self) { Feeding::Call(self.feeding())->reset_stats(); },
          "Measures anew from here on.")
      .def(
          "report",
          [](const PrefetcherObject& self) {
            std::string text = ask(self, &feeder::Prefetcher::report);
            if (self.copies() > 0) {
              text.append("  ")
                  .append(std::to_string(self.copies()))
                  .append(" batches were copied, because max_leases - 1 were held\n");
            }
            return to_str(text);
          },
          "The figures of stats(), where memory is, and how many batches were copied, as text.")
      .def(
          "failed_samples",
          [](const PrefetcherObject& self) {
            return ask(self, &feeder::Prefetcher::failed_samples);
          },
          "The samples that were left out because they failed: the first 10,000.");
  module.def("merge_states", &merge_states, nb::arg("states"), "As leat.merge_states(), of texts.");
  module.def("stop_all", &stop_all, "Ends all feeds, for the interpreter's exit.");
}

}  // namespace leat::python
