// `leat._core._stand_in`: what Python tests ask the software CUDA runtime, and make it do. Only in
// the module that is linked with it. Streams are numbers, as in torch.cuda.Stream.cuda_stream.

#include "tests/gpu/cuda/stand_in/stand_in.h"

#include <cuda_runtime_api.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leat/gpu/error.h"
#include "leat/python/module.h"
#include "python/tests/stand_in/throws.h"

namespace leat::python {
namespace {

namespace nb = nanobind;
using stand_in::Live;
using Number = std::uintptr_t;

constexpr nb::call_guard<nb::gil_scoped_release> kWithoutGil;

cudaStream_t handle(Number stream) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): that is what a stream's number is
  return reinterpret_cast<cudaStream_t>(stream);
}
Number number(cudaStream_t stream) { return reinterpret_cast<Number>(stream); }

void must(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorName(code));
}

/// Holds a stream: what is given to it later does not run until the gate is opened, or dies.
class Gate {
 public:
  explicit Gate(Number stream) {
    auto* const argument = new std::shared_ptr<State>(state_);
    if (const cudaError_t code = cudaLaunchHostFunc(handle(stream), &Gate::wait, argument);
        code != cudaSuccess) {
      delete argument;
      must(code);
    }
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() const {
    state_->opened = true;
    state_->opened.notify_all();
  }

 private:
  struct State {
    std::atomic<bool> opened{false};
  };
  static void CUDART_CB wait(void* argument) {
    const std::unique_ptr<std::shared_ptr<State>> state(
        static_cast<std::shared_ptr<State>*>(argument));
    (*state)->opened.wait(false);
  }
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

Number make_stream(int device, bool blocking) {
  must(cudaSetDevice(device));
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
  return number(stream);
}

bool is_done(Number stream) {
  const cudaError_t code = cudaStreamQuery(handle(stream));
  if (code != cudaErrorNotReady) must(code);
  return code == cudaSuccess;
}

std::vector<Number> streams() {
  std::vector<Number> numbers;
  for (cudaStream_t one : stand_in::streams()) numbers.push_back(number(one));
  return numbers;
}

std::vector<std::pair<Number, Number>> waits() {
  std::vector<std::pair<Number, Number>> pairs;
  for (const stand_in::Wait& one : stand_in::waits()) {
    pairs.emplace_back(number(one.waiting), number(one.recorded_on));
  }
  return pairs;
}

std::map<std::string, std::size_t> live() {
  const Live alive = stand_in::live();
  return {{"streams", alive.streams},
          {"events", alive.events},
          {"device_allocations", alive.device_allocations},
          {"pinned_allocations", alive.pinned_allocations},
          {"registrations", alive.registrations}};
}

nb::bytes read(Number address, std::size_t bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the stand-in's memory is the CPU's
  return nb::bytes(reinterpret_cast<const void*>(address), bytes);
}

void bind_controls(nb::module_& module) {
  module.def("reset", &stand_in::reset, kWithoutGil);
  module.def("set_devices", &stand_in::set_devices, kWithoutGil);
  module.def("set_driver_version", &stand_in::set_driver_version, kWithoutGil);
  module.def("shake_threads", &stand_in::shake_threads, kWithoutGil);
  module.def("record_waits", &stand_in::record_waits, kWithoutGil);
  module.def(
      "delay_operations",
      [](std::int64_t microseconds) {
        stand_in::delay_operations(std::chrono::microseconds(microseconds));
      },
      kWithoutGil);
  module.def(
      "fail_call",
      [](const std::string& function, int code, std::uint64_t n) {
        stand_in::fail_call(function, static_cast<cudaError_t>(code), n);
      },
      nb::arg("function"), nb::arg("code"), nb::arg("n") = 1, kWithoutGil);
  module.def(
      "fail_device",
      [](int device, int code, std::uint64_t n) {
        stand_in::fail_device(device, static_cast<cudaError_t>(code), n);
      },
      nb::arg("device"), nb::arg("code"), nb::arg("n") = 0, kWithoutGil);
  module.def("clear_faults", &stand_in::clear_faults, kWithoutGil);
}

void bind_questions(nb::module_& module) {
  module.def(
      "calls", [](const std::string& function) { return stand_in::calls(function); }, kWithoutGil);
  module.def("pageable_copies", &stand_in::pageable_copies, kWithoutGil);
  module.def("calls_in_host_functions", &stand_in::calls_in_host_functions, kWithoutGil);
  module.def(
      "copied_bytes", [] { return stand_in::copied().bytes; }, kWithoutGil);
  module.def("live", &live, kWithoutGil);
  module.def("streams", &streams, kWithoutGil);
  module.def("waits", &waits, kWithoutGil,
             "(waiting, recorded on) of each; 1 is the legacy stream.");
  module.def(
      "is_device_memory",
      [](Number address, std::size_t bytes) {
        return stand_in::is_device_memory(reinterpret_cast<const void*>(address), bytes);
      },
      kWithoutGil);
  module.def("wait_for_destroyed_streams", &stand_in::wait_for_destroyed_streams, kWithoutGil);
  module.def("read", &read, "The bytes of a device's memory.");
}

}  // namespace

void bind_stand_in(nb::module_& module) {
  nb::module_ own = module.def_submodule("_stand_in", "The software CUDA runtime of the tests.");
  bind_controls(own);
  bind_questions(own);
  bind_throws(own);
  own.def("stream", &make_stream, nb::arg("device") = 0, nb::arg("blocking") = false, kWithoutGil);
  own.def(
      "destroy", [](Number stream) { must(cudaStreamDestroy(handle(stream))); }, kWithoutGil);
  own.def("is_done", &is_done, kWithoutGil, "Whether the stream has run all that it was given.");
  own.def(
      "synchronize", [](Number stream) { must(cudaStreamSynchronize(handle(stream))); },
      kWithoutGil);
  nb::class_<Gate>(own, "Gate", "Holds a stream until it is opened.")
      .def(nb::init<Number>(), nb::arg("stream"))
      .def("open", &Gate::open)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](const Gate& gate, const nb::args&) { gate.open(); });
}

}  // namespace leat::python
