#include "python/tests/stand_in/throws.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "leat/csp/error.h"
#include "leat/feeder/failures.h"
#include "leat/gpu/error.h"
#include "leat/python/calls/errors.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

feeder::SampleError sample_error() {
  return {"leat: reader: sample 789 failed",
          {.stage = feeder::FailingStage::kTransform,
           .epoch = 4,
           .batch = 2,
           .sample = 789,
           .error = "leat: cannot read a.bin (at byte 40)"}};
}

// A sample's error, because of a file's, because of the system's.
void throw_nested() {
  try {
    try {
      throw std::filesystem::filesystem_error(
          "no disk", "a.bin", std::make_error_code(std::errc::no_such_file_or_directory));
    } catch (...) {
      std::throw_with_nested(Error("leat: cannot read a.bin (at byte 40)"));
    }
  } catch (...) {
    std::throw_with_nested(sample_error());
  }
}

const std::map<std::string, std::function<void()>>& kinds() {
  static const std::map<std::string, std::function<void()>> all = {
      {"Error", [] { throw Error("leat: a text"); }},
      {"not UTF-8", [] { throw Error("leat: a\xff.bin"); }},
      {"SampleError", [] { throw sample_error(); }},
      {"nested", &throw_nested},
      {"GpuError",
       [] { throw gpu::GpuError(1, "cudaErrorInvalidValue", "cudaFree", "cuda:0", ""); }},
      {"OutOfMemory",
       [] { throw OutOfMemory(8, "cudaMalloc(8 bytes) on cuda:0", "none is left"); }},
      {"Timeout", [] { throw Timeout("leat: too long"); }},
      {"TooManyLeases", [] { throw TooManyLeases("leat: too many"); }},
      {"ChannelClosed", [] { throw ChannelClosed("leat: closed"); }},
      {"Deadlock", [] { throw Deadlock("leat: all wait"); }},
      {"Cancelled", [] { throw Cancelled(); }},
      {"errno", [] { throw std::system_error(EACCES, std::generic_category(), "open"); }},
      {"file",
       [] {
         throw std::filesystem::filesystem_error(
             "open", "a.bin", std::make_error_code(std::errc::no_such_file_or_directory));
       }},
      {"future", [] { throw std::system_error(std::make_error_code(std::future_errc::no_state)); }},
      {"bad_alloc", [] { throw std::bad_alloc(); }},
      {"out_of_range", [] { throw std::out_of_range("leat: 7"); }},
      {"invalid_argument", [] { throw std::invalid_argument("leat: no"); }},
      {"length_error", [] { throw std::length_error("leat: long"); }},
      {"domain_error", [] { throw std::domain_error("leat: domain"); }},
      {"logic_error", [] { throw std::logic_error("leat: order"); }},
      {"runtime_error", [] { throw std::runtime_error("leat: run"); }},
      {"int", [] { throw 7; }},
  };
  return all;
}

}  // namespace

void bind_throws(nb::module_& module) {
  module.def("throw_", [](const std::string& kind) { kinds().at(kind)(); });
  module.def(
      "throw_around",
      [](const nb::callable& function) {
        try {
          function();
        } catch (...) {
          std::throw_with_nested(sample_error());
        }
      },
      "Throws a sample's error because of what the function raises.");
}

}  // namespace leat::python
