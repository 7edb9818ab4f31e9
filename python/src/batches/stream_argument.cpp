// Streams as Python code names them.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/feeder/interop/dlpack.h"
#include "leat/python/batches/tensor.h"

namespace leat::python {
namespace {

namespace nb = nanobind;

constexpr std::int64_t kPerThreadDefault = 2;

[[noreturn]] void refuse_per_thread_default(const gpu::Device& device) {
  throw nb::buffer_error(("leat: stream 2 is each thread's own default stream, which Leat cannot "
                          "know on " +
                          device.name() +
                          ": pass 1 for the legacy default stream, or the number of a stream of "
                          "your own (torch.cuda.Stream().cuda_stream)")
                             .c_str());
}

// The handle in an object that is some library's stream; nothing if it is none.
std::optional<std::int64_t> handle_in(nb::handle stream) {
  if (nb::hasattr(stream, "__cuda_stream__")) {
    return nb::cast<std::int64_t>(stream.attr("__cuda_stream__")()[1]);
  }
  for (const char* const name : std::array{"cuda_stream", "ptr"}) {
    if (nb::hasattr(stream, name)) return nb::cast<std::int64_t>(stream.attr(name));
  }
  return std::nullopt;
}

}  // namespace

gpu::StreamRef stream_of_handle(const gpu::Device& device, std::int64_t handle) {
  if (handle == kPerThreadDefault) refuse_per_thread_default(device);
  if (handle == 0 || handle == 1) return gpu::StreamRef::legacy(device);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how Python passes a cudaStream_t
  return gpu::StreamRef::from_native(device, reinterpret_cast<void*>(handle));
}

std::optional<gpu::StreamRef> stream_of(const gpu::Device& device, nb::handle stream) {
  if (stream.is_none()) return gpu::StreamRef::legacy(device);
  std::int64_t number = 0;
  if (!nb::isinstance<nb::bool_>(stream) && nb::try_cast(stream, number)) {
    if (number == kPerThreadDefault) refuse_per_thread_default(device);
    return feeder::dlpack::consumer_stream(device, number);
  }
  if (const auto handle = handle_in(stream)) return stream_of_handle(device, *handle);
  throw nb::type_error(("leat: " + nb::cast<std::string>(nb::repr(stream)) +
                        " is no stream: pass None, a number as DLPack has it, or a stream of "
                        "torch or CuPy")
                           .c_str());
}

}  // namespace leat::python
