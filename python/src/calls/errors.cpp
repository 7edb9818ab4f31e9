#include "leat/python/calls/errors.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "leat/feeder/batch_source.h"
#include "leat/feeder/failures.h"
#include "leat/gpu/error.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

template <class... Arguments>
nb::object make(const char* type, const Arguments&... arguments) {
  return nb::module_::import_("leat.errors").attr(type)(arguments...);
}

nb::object make_builtin(PyObject* type, std::string_view text) {
  return nb::handle(type)(to_str(text));
}

nb::object from_sample(const feeder::SampleError& error) {
  const feeder::FailedSample& sample = error.sample();
  return make("SampleError", to_str(error.what()), to_string(sample.stage), sample.epoch,
              sample.batch, sample.sample);
}

// A SampleError; its cause is what the reader has raised.
nb::object from_batch(const feeder::BatchError& error) {
  const std::string& payload = error.payload();
  return nb::module_::import_("leat.readers.errors")
      .attr("sample_error")(to_str(error.what()), nb::bytes(payload.data(), payload.size()),
                            error.epoch(), error.batch(), error.sample());
}

// OSError's constructor chooses the type by the number: FileNotFoundError and so on.
nb::object from_system(const std::system_error& error) {
  const std::error_category& category = error.code().category();
  if (category != std::system_category() && category != std::generic_category()) {
    return make("Error", to_str(error.what()));
  }
  const nb::handle type = PyExc_OSError;
  if (const auto* with_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return type(error.code().value(), to_str(error.what()), to_str(with_file->path1().native()));
  }
  return type(error.code().value(), to_str(error.what()));
}

nb::object from_python(const nb::python_error& error) {
  nb::object value = nb::borrow(error.value());
  if (const nb::object traceback = error.traceback()) {
    PyException_SetTraceback(value.ptr(), traceback.ptr());
  }
  return value;
}

nb::object without_cause(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const nb::python_error& e) {
    return from_python(e);
  } catch (const feeder::SampleError& e) {
    return from_sample(e);
  } catch (const feeder::BatchError& e) {
    return from_batch(e);
  } catch (const gpu::GpuError& e) {
    return make("GpuError", to_str(e.what()), e.code(), e.name(), e.call(), e.device());
  } catch (const OutOfMemory& e) {
    return make("OutOfMemory", to_str(e.what()), e.bytes(), to_str(e.request()));
  } catch (const Timeout& e) {
    return make("Timeout", to_str(e.what()));
  } catch (const TooManyLeases& e) {
    return make("TooManyLeases", to_str(e.what()));
  } catch (const Error& e) {
    return make("Error", to_str(e.what()));
  } catch (const ChannelClosed& e) {
    return make("Error", to_str(e.what()));
  } catch (const Deadlock& e) {
    return make("Error", to_str(e.what()));
  } catch (const Cancelled&) {
    return make("Error", "leat: cancelled");
  } catch (const std::system_error& e) {
    return from_system(e);
  } catch (const std::bad_alloc&) {
    return make("OutOfMemory", "leat: the host's memory is exhausted", 0, "");
  } catch (const std::out_of_range& e) {
    return make_builtin(PyExc_IndexError, e.what());
  } catch (const std::invalid_argument& e) {
    return make_builtin(PyExc_ValueError, e.what());
  } catch (const std::length_error& e) {
    return make_builtin(PyExc_ValueError, e.what());
  } catch (const std::domain_error& e) {
    return make_builtin(PyExc_ValueError, e.what());
  } catch (const std::exception& e) {
    return make_builtin(PyExc_RuntimeError, e.what());
  } catch (...) {
    return make_builtin(PyExc_RuntimeError, "leat: an exception of unknown type");
  }
}

std::exception_ptr cause_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::nested_exception& e) {
    return e.nested_ptr();
  } catch (...) {
    return nullptr;
  }
}

// Whether `reason` is a plain leat.Error whose sentence stands in that of `error`: a traceback,
// which prints both, would repeat it.
bool says_no_more(nb::handle reason, nb::handle error) {
  return reason.type().is(nb::module_::import_("leat.errors").attr("Error")) &&
         to_text(error).find(to_text(reason)) != std::string::npos;
}

}  // namespace

nb::object to_python(const std::exception_ptr& error) {
  nb::object made = without_cause(error);
  const std::exception_ptr cause = cause_of(error);
  if (cause == nullptr) return made;
  nb::object reason = to_python(cause);
  if (says_no_more(reason, made)) reason = reason.attr("__cause__");
  if (!reason.is_none()) PyException_SetCause(made.ptr(), reason.release().ptr());  // takes it
  return made;
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    if (is_exiting_elsewhere()) {
      PyErr_SetNone(PyExc_SystemExit);
      return;
    }
    const InCall inside(InCall::to_the_end);  // exceptions have Python code
    const nb::object made = to_python(error);
    PyErr_SetObject(made.type().ptr(), made.ptr());
  });
}

}  // namespace leat::python
