#include "leat/python/loops/prefetcher.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/failures.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/feeder/stats.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/error.h"
#include "leat/python/calls/collected.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/loops/loop.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;
using namespace std::string_view_literals;

namespace {

template <class T>
void read(const nb::dict& options, const char* name, T& member) {
  member = nb::cast<T>(options[name]);
}

// `names` are those of the enumerators, in their order.
template <class Enum, std::size_t n>
void read(const nb::dict& options, const char* name, Enum& member,
          const std::array<std::string_view, n>& names) {
  const auto value = nb::cast<std::string>(options[name]);
  const auto at = std::ranges::find(names, value);
  if (at == names.end()) throw nb::value_error(name);
  member = static_cast<Enum>(at - names.begin());
}

feeder::FailureBudget budget(const nb::dict& options, const char* name) {
  return {.count = nb::cast<std::uint64_t>(options[name].attr("count")),
          .rate = nb::cast<double>(options[name].attr("rate"))};
}

feeder::PrefetcherOptions options_of(const nb::dict& from) {
  feeder::PrefetcherOptions options;
  read(from, "batch_size", options.batch_size);
  read(from, "prefetch_depth", options.prefetch_depth);
  read(from, "max_leases", options.max_leases);
  read(from, "workers", options.workers);
  read(from, "pinned_slots", options.pinned_slots);
  read(from, "order", options.order, std::array{"sequential"sv, "shuffled"sv});
  read(from, "seed", options.seed);
  read(from, "last_batch", options.last_batch,
       std::array{"partial"sv, "drop"sv, "pad"sv, "wrap"sv});
  read(from, "delivery", options.delivery, std::array{"in_order"sv, "as_completed"sv});
  read(from, "rank", options.rank);
  read(from, "world_size", options.world_size);
  read(from, "copy_chunk_bytes", options.copy_chunk_bytes);
  read(from, "max_pinned_bytes", options.max_pinned_bytes);
  read(from, "max_device_bytes", options.max_device_bytes);
  read(from, "resume", options.resume);
  read(from, "check_slots", options.check_slots, std::array{"no"sv, "yes"sv, "read_only"sv});
  read(from, "sample_every", options.sample_every);
  read(from, "trace", options.trace);
  options.read_failures = budget(from, "read_failures");
  options.transform_failures = budget(from, "transform_failures");
  if (const nb::object packing = from["packing"]; !packing.is_none()) {
    options.packing = {.most_samples = nb::cast<std::size_t>(packing.attr("most_samples"))};
  }
  if (const nb::object tune = from["autotune"]; !tune.is_none()) {
    options.autotune = {
        .max_workers = nb::cast<std::size_t>(tune.attr("max_workers")),
        .max_prefetch_depth = nb::cast<std::size_t>(tune.attr("max_prefetch_depth")),
        .every = nb::cast<std::size_t>(tune.attr("every"))};
  }
  if (const nb::object live = from["live"]; !live.is_none()) {
    options.live = {.fd = nb::cast<int>(live.attr("fd")),
                    .batches = nb::cast<std::uint64_t>(live.attr("batches"))};
  }
  return options;
}

std::optional<Duration> duration_of(const std::optional<double>& seconds) {
  constexpr double kLongest = 1e9;  // as good as for ever
  if (!seconds.has_value()) return std::nullopt;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(*seconds, kLongest)));
}

// Calls `function`. A plain Error from it is about a state that the caller gave: ValueError.
template <class Function>
auto of_states(Function&& function) {
  try {
    return function();
  } catch (const gpu::GpuError&) {
    throw;
  } catch (const Error& error) {
    throw nb::value_error(error.what());
  }
}

}  // namespace

PrefetcherObject::PrefetcherObject(nb::object dataset, const std::string& device,
                                   const nb::object& framework, const nb::dict& options,
                                   bool copies_escapes, std::optional<double> timeout)
    : dataset_(std::move(dataset)),
      device_(open_device(device)),
      options_(options_of(options)),
      copies_escapes_(copies_escapes),
      timeout_(duration_of(timeout)) {
  const InCall inside;
  framework_ = nb::module_::import_("leat.frameworks").attr("adapter")(framework, device_.name());
  feeding_ =
      options_.resume.has_value() ? of_states([this] { return make_feeding(); }) : make_feeding();
  batches_ = Feeding::Call(*feeding_)->batches_per_epoch();
  if (options_.resume.has_value()) note_rests(*options_.resume);
}

PrefetcherObject::~PrefetcherObject() { clear(); }

std::shared_ptr<Feeding> PrefetcherObject::make_feeding() const {
  return Feeding::make(to_dataset(dataset_), device_, options_);
}

// Notes how many batches the epochs of `state` have left, and that its first epoch comes next, or
// the one after it if nothing is left of that.
void PrefetcherObject::note_rests(const std::string& state) {
  const feeder::State parsed = feeder::State::parse(state);
  next_epoch_ = parsed.next_epoch();
  rests_.clear();
  for (const feeder::EpochReleases& one : parsed.epochs) {
    rests_.push_back(
        {.epoch = one.epoch, .batches = batches_ - std::min(batches_, one.batches.count())});
  }
  if (!rests_.empty() && rests_.front().batches == 0) ++next_epoch_;
}

// While it waits, other threads and signal handlers call this object. One call at a time makes a
// feeding; close() meanwhile drops loaded_.
void PrefetcherObject::take_loaded(const std::string& why) {
  if (!feeding_->is_here()) feeding_->check_open();
  if (is_taking_) {
    throw Error(
        "leat: another call, in another thread or below a signal handler, begins a loop with the "
        "state that was loaded: a feed has one loop at a time");
  }
  const Mark taking(is_taking_);
  feeding_->close(why);
  if (!loaded_.has_value()) feeding_->check_open();  // throws
  options_.resume = *loaded_;
  if (has_begun_) options_.trace = nullptr;  // it has the batches of the feeding that was
  std::shared_ptr<Feeding> made = make_feeding();
  if (!loaded_.has_value()) {
    made.reset();
    feeding_->check_open();  // throws
  }
  feeding_ = std::move(made);
  loaded_.reset();
}

std::shared_ptr<Feeding> PrefetcherObject::begin(Loop& loop, std::uint64_t epoch,
                                                 std::uint64_t& left) {
  if (loaded_.has_value()) {
    take_loaded("this loop has ended: another loop, over epoch " + std::to_string(epoch) +
                ", has begun with the state that was loaded");
  }
  Feeding::Turn turn(*feeding_);
  if (latest_ != nullptr) std::exchange(latest_, nullptr)->supersede(epoch);
  turn->start(epoch);
  left = batches_of(epoch);
  std::erase_if(rests_, [&](const Rest& one) { return one.epoch == epoch; });
  next_epoch_ = epoch + 1;
  has_begun_ = true;
  latest_ = &loop;
  return feeding_;
}

void PrefetcherObject::leave(const Loop& loop) noexcept {
  if (latest_ == &loop) latest_ = nullptr;
}

std::uint64_t PrefetcherObject::batches_of(std::uint64_t epoch) const {
  const auto rest = std::ranges::find(rests_, epoch, &Rest::epoch);
  return rest == rests_.end() ? batches_ : rest->batches;
}

// The state that was loaded, as this rank has it: it may come from other ranks.
std::string PrefetcherObject::state(bool in_hand) {
  if (loaded_.has_value() && latest_ == nullptr && !is_taking_) take_loaded("a state was loaded");
  if (loaded_.has_value()) return *loaded_;
  Feeding::Call call(*feeding_);
  const feeder::Receipt* const receipt =
      in_hand && latest_ != nullptr ? latest_->in_hand() : nullptr;
  if (receipt == nullptr) return call->state();
  return call->state(std::span(&receipt, 1));
}

void PrefetcherObject::load(std::string text) {
  Feeding::Call call(*feeding_);
  of_states([&] { call->check_resume(text); });
  note_rests(text);
  loaded_ = std::move(text);
}

void PrefetcherObject::close() {
  loaded_.reset();
  if (!feeding_->is_here()) feeding_->check_open();
  feeding_->close("the feed was closed");
}

void PrefetcherObject::warn_of_copies() {
  if (std::exchange(has_warned_, true)) return;
  const std::optional<HeldBatch> oldest = feeding_->leases()->oldest();
  const std::string text =
      "leat: a batch is copied, and so are all that are asked for while " +
      std::to_string(options_.max_leases - 1) + " are held (max_leases - 1); the oldest is " +
      (oldest.has_value() ? oldest->text() : std::string("gone")) +
      ": drop or release() batches, copy what is to be kept, or raise max_leases";
  nb::module_::import_("logging").attr("getLogger")("leat").attr("warning")("%s", to_str(text));
}

int PrefetcherObject::traverse(visitproc visit, void* arg) const {
  Py_VISIT(dataset_.ptr());
  Py_VISIT(framework_.ptr());
  return 0;
}

// The prefetcher reads the dataset: it ends first, also where a loop of the same garbage has it
// still. No thread is in a call then.
void PrefetcherObject::clear() noexcept {
  if (feeding_ != nullptr && !feeding_->finish("the feed was closed")) {
    static_cast<void>(dataset_.release());  // it is read still
  }
  dataset_.reset();
  framework_.reset();
}

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

std::string merge_states(const std::vector<std::string>& texts) {
  return of_states([&] {
    std::vector<feeder::State> states;
    states.reserve(texts.size());
    for (const std::string& text : texts) states.push_back(feeder::State::parse(text));
    return feeder::State::merge(states).text();
  });
}

nb::str repr_of(const PrefetcherObject& self) {
  const feeder::Dataset& data = to_dataset(self.dataset());
  const nb::object& framework = self.framework();
  const std::string text = std::string("<leat.Prefetcher of ")
                               .append(data.name())
                               .append(" on ")
                               .append(self.device().name())
                               .append(": ")
                               .append(std::to_string(self.batches_per_epoch()))
                               .append(" batches of ")
                               .append(std::to_string(self.options().batch_size))
                               .append(" an epoch, framework ")
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
          [](nb::object self) {
            const std::uint64_t epoch = made(self).next_epoch();
            return make_loop(std::move(self), epoch, Loop::Leaving::kDropped);
          },
          "Begins the next epoch.")
      .def("__len__", &PrefetcherObject::batches_per_epoch, "Batches of a whole epoch.")
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
      .def("load", &PrefetcherObject::load, nb::arg("state"), "As load_state_dict(), of the text.")
      .def("close", &PrefetcherObject::close,
           "Ends the feed: a call of another thread raises, and so do later ones. Waits for the "
           "reads that are under way. Batches stay as they are.")
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
