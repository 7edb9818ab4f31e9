// From C++ exceptions to Python exceptions (leat/errors.py).
//
// | C++ | Python |
// |---|---|
// | feeder::SampleError | leat.SampleError |
// | feeder::BatchError | leat.SampleError; its cause is what a reader has raised |
// | gpu::GpuError | leat.GpuError |
// | OutOfMemory, std::bad_alloc | leat.OutOfMemory |
// | Timeout, TooManyLeases (of this file) | leat.Timeout, leat.TooManyLeases |
// | leat::Error, ChannelClosed, Cancelled, Deadlock | leat.Error |
// | std::system_error with a number of errno | OSError, with the number and the file |
// | std::out_of_range | IndexError |
// | std::invalid_argument, std::length_error, std::domain_error | ValueError |
// | any other | RuntimeError |
//
// A Python exception that went through C++ stays itself. A nested exception becomes __cause__. If
// it is an Error whose text is part of the outer text, its own cause does instead. While the
// interpreter exits, other threads than the one that exits get SystemExit for each of these.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

#include "leat/csp/error.h"

namespace leat::python {

/// A wait has lasted as long as the caller allowed: leat.Timeout.
class Timeout : public Error {
 public:
  using Error::Error;
};

/// A batch was asked for while as many are held as max_leases allows: leat.TooManyLeases.
class TooManyLeases : public Error {
 public:
  using Error::Error;
};

/// The Python exception for `error`, with its causes. Needs the GIL. Throws
/// nanobind::python_error if it cannot be made.
[[nodiscard]] nanobind::object to_python(const std::exception_ptr& error);

}  // namespace leat::python
