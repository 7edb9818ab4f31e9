// What data costs a loop (leat/overlap.py): feeder::LoopMeter for Python.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "leat/csp/base/home_process.h"
#include "leat/csp/error.h"
#include "leat/feeder/loop_meter.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/loops/feeding.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;
namespace {

/// `leat._core.LoopMeter`. Nothing that a device does makes a call of the loop fail. Without the
/// GIL where the device is used; in a child of the process, and while the interpreter exits,
/// nothing is measured.
class MeterObject {
 public:
  explicit MeterObject(std::size_t sample_every)
      : parts_(std::make_unique<Parts>(feeder::LoopMeterOptions{.sample_every = sample_every})) {}
  ~MeterObject() {
    if (!is_here()) static_cast<void>(parts_.release());  // its events are the other process's
  }
  MeterObject(const MeterObject&) = delete;
  MeterObject& operator=(const MeterObject&) = delete;

  [[nodiscard]] bool is_here() const noexcept { return home_.is_here() && !is_exiting(); }
  [[nodiscard]] bool wants_stream() const noexcept {
    return is_free() && parts_->meter.wants_stream();
  }

  void asks() {
    if (!is_free()) return;
    is_on_stream_ = false;
    parts_->meter.asks();
  }
  void asks_on(const std::string& device, std::uintptr_t number) {
    if (!is_free()) return;
    std::optional<gpu::StreamRef> stream;
    {
      const Mark taken(is_taken_);
      stream = stream_of(device, number);
      is_on_stream_ = stream.has_value();
      if (is_on_stream_) {
        const InCall inside(InCall::to_the_end);
        const nb::gil_scoped_release others_run;
        parts_->meter.asks(*stream);
      }
    }
    if (!is_on_stream_) asks();
  }
  void got() {
    if (!is_free()) return;
    if (!is_on_stream_) return parts_->meter.got();
    const Mark taken(is_taken_);
    const InCall inside(InCall::to_the_end);
    const nb::gil_scoped_release others_run;
    parts_->meter.got();
  }
  void ends() {
    if (is_free()) parts_->meter.ends();
  }
  [[nodiscard]] feeder::LoopFigures figures() {
    if (!is_here()) throw Error("leat: a loop is measured in the process that began to measure it");
    feeder::LoopFigures figures = parts_->meter.figures();
    if (figures.device_error.empty() && !figures.has_device()) figures.device_error = refusal_;
    return figures;
  }

 private:
  // The stream, if Leat can use it. Torch and CuPy call CUDA's legacy default stream 0.
  [[nodiscard]] std::optional<gpu::StreamRef> stream_of(const std::string& name,
                                                        std::uintptr_t number) {
    try {
      if (parts_->name != name) {
        parts_->device = open_device(name);
        parts_->name = name;
      }
      const gpu::Device& device = *parts_->device;
      refusal_.clear();
      if (number <= 1) return gpu::StreamRef::legacy(device);
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a stream as Python knows it
      return gpu::StreamRef::from_native(device, reinterpret_cast<void*>(number));
    } catch (const std::exception& failure) {
      refusal_ = failure.what();
      return std::nullopt;
    }
  }

  // A meter has one loop: what other threads call while a call of it has given up the GIL, they do
  // not measure.
  [[nodiscard]] bool is_free() const noexcept { return is_here() && !is_taken_; }

  struct Parts {
    explicit Parts(const feeder::LoopMeterOptions& options) : meter(options) {}
    std::string name;  // of the device
    std::optional<gpu::Device> device;
    feeder::LoopMeter meter;
  };
  const HomeProcess home_;
  std::unique_ptr<Parts> parts_;  // what is not destroyed in a child
  bool is_taken_ = false;         // a call has given up the GIL
  bool is_on_stream_ = false;     // the step in progress
  std::string refusal_;           // why the latest stream was not used
};

void bind_loop_figures(nb::module_& module) {
  using feeder::LoopFigures;
  nb::class_<LoopFigures>(module, "LoopFigures",
                          "What data costs a loop. Times are in seconds. Quantiles are of the "
                          "latest 4096 steps or samples, sums and counts of all.",
                          nb::is_final())
      .def_ro("iterations", &LoopFigures::iterations, "In which the loop got a batch.")
      .def_ro("first_wait", &LoopFigures::first_wait,
              "Of the host, for the first batch of each of them; in no other figure.")
      .def_ro("steps", &LoopFigures::steps, "Complete ones, without the first of each iteration.")
      .def_ro("wait", &LoopFigures::wait, "Of the host, for a batch.")
      .def_ro("wait_sum", &LoopFigures::wait_sum)
      .def_ro("step", &LoopFigures::step, "Of the host, the wait included.")
      .def_ro("step_sum", &LoopFigures::step_sum)
      .def_ro("sampled", &LoopFigures::sampled, "Steps that were measured on the device.")
      .def_ro("gap", &LoopFigures::gap, "In which the device was idle across the wait.")
      .def_ro("gap_sum", &LoopFigures::gap_sum)
      .def_ro("sampled_step", &LoopFigures::sampled_step,
              "Of the sampled steps, on the device, the gap included.")
      .def_ro("sampled_step_sum", &LoopFigures::sampled_step_sum)
      .def_ro("device_error", &LoopFigures::device_error,
              "Why the device is not measured; empty: it is, or there is none.")
      .def_prop_ro("has_device", &LoopFigures::has_device,
                   "Whether steps were measured on the device.")
      .def_prop_ro("share", &LoopFigures::share,
                   "The share of the steps' time that data costs, from 0 to 1: the device's gaps "
                   "or, while no step was measured on a device, the host's waits.")
      .def("sentence", &LoopFigures::sentence, "What data costs, in one sentence.")
      .def("table", &LoopFigures::table, "The quantiles as a table, then the sentence.")
      .def("__repr__", [](const LoopFigures& figures) {
        return std::string("<leat.LoopFigures: ").append(figures.sentence()).append(">");
      });
}

}  // namespace

void bind_overlap(nb::module_& module) {
  bind_loop_figures(module);
  nb::class_<MeterObject>(module, "LoopMeter", "What leat.overlap() measures with.", nb::is_final())
      .def(nb::init<std::size_t>(), nb::arg("sample_every") = 16)
      .def_prop_ro("is_here", &MeterObject::is_here)
      .def("wants_stream", &MeterObject::wants_stream)
      .def("asks", &MeterObject::asks)
      .def("asks_on", &MeterObject::asks_on, nb::arg("device"), nb::arg("stream"))
      .def("got", &MeterObject::got)
      .def("ends", &MeterObject::ends)
      .def("figures", &MeterObject::figures);
}

}  // namespace leat::python
