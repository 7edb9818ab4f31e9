#include "leat/python/batches/tensor.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "leat/feeder/interop/dlpack.h"
#include "leat/python/module.h"

namespace leat::python {
namespace {

namespace nb = nanobind;
namespace dlpack = feeder::dlpack;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

template <class Managed>
constexpr const char* kCapsuleName = "dltensor";
template <>
constexpr const char* kCapsuleName<DLManagedTensorVersioned> = "dltensor_versioned";

// A consumer renames the capsule. One that nobody consumed still owns its tensor.
template <class Managed>
void end_capsule(PyObject* capsule) noexcept {
  if (PyCapsule_IsValid(capsule, kCapsuleName<Managed>) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kCapsuleName<Managed>));
  managed->deleter(managed);
}

template <class Managed>
nb::object capsule_of(dlpack::Exported<Managed> tensor) {
  PyObject* const capsule =
      PyCapsule_New(tensor.get(), kCapsuleName<Managed>, end_capsule<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(tensor.release());  // NOLINT(bugprone-unused-return-value): the capsule's now
  return nb::steal(capsule);
}

std::string name_of(const dlpack::DLDevice& device) {
  return "(" + std::to_string(device.device_type) + ", " + std::to_string(device.device_id) + ")";
}

// `value` as a pair of int; `what` is the argument's name.
std::pair<std::int64_t, std::int64_t> pair_of(nb::handle value, const char* what) {
  std::int64_t first = 0;
  std::int64_t second = 0;
  if (!nb::isinstance<nb::tuple>(value) || nb::len(value) != 2 || !nb::try_cast(value[0], first) ||
      !nb::try_cast(value[1], second)) {
    throw nb::type_error(("leat: __dlpack__: " + std::string(what) +
                          " has to be None or a tuple of two int, not " +
                          nb::cast<std::string>(nb::repr(value)))
                             .c_str());
  }
  return {first, second};
}

void require_bound(const Tensor& tensor) {
  try {
    tensor.memory().require_bound();
  } catch (const std::logic_error&) {
    throw nb::buffer_error(("leat: " + tensor.info().name + " on " + tensor.memory().device_name() +
                            " is not bound to a stream yet: pass the stream that will use it, or "
                            "call batch.on(stream) before")
                               .c_str());
  }
}

// A tensor of the CPU is used on no stream; one of a GPU on `stream`.
void bind_consumer(const Tensor& tensor, nb::handle stream) {
  Memory& memory = tensor.memory();
  if (is_cpu(memory.place())) {
    if (stream.is_none()) return memory.require_bound();
    throw nb::value_error(("leat: __dlpack__ of " + tensor.info().name + " on " +
                           memory.device_name() + ": stream is " +
                           nb::cast<std::string>(nb::repr(stream)) +
                           ", but a CPU has none: pass None")
                              .c_str());
  }
  if (const auto bound = stream_of(memory.device(), stream)) return memory.bind(*bound);
  require_bound(tensor);
}

}  // namespace

std::size_t TensorInfo::bytes() const noexcept {
  std::size_t bytes = feeder::size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

std::string TensorInfo::text() const {
  std::string out = name + " " + feeder::to_string(dtype) + " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

Tensor::Tensor(TensorInfo info, std::shared_ptr<Memory> memory, std::byte* data)
    : info_(std::move(info)),
      memory_(std::move(memory)),
      data_(data),
      strides_(info_.shape.size()) {
  auto stride = static_cast<std::int64_t>(feeder::size_of(info_.dtype));
  for (std::size_t i = strides_.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= info_.shape[i];
  }
}

std::optional<bool> copy_argument(nb::handle value, const char* what) {
  if (value.is_none()) return std::nullopt;
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  throw nb::type_error(
      ("leat: " + std::string(what) + ": copy has to be None, True or False").c_str());
}

Tensor Tensor::copy() const {
  CopiedMemory copied = copy_of(*memory_, data_, info_.bytes());
  return {info_, std::move(copied.memory), copied.data};
}

nb::object Tensor::exported(bool versioned, bool is_copy) const {
  const dlpack::View view = {.data = data_,
                             .device = memory_->place(),
                             .dtype = info_.dtype,
                             .shape = info_.shape,
                             .is_copy = is_copy};
  if (versioned) return capsule_of(dlpack::view_to_dlpack(memory_, view));
  return capsule_of(dlpack::view_to_dlpack<DLManagedTensor>(memory_, view));
}

nb::object Tensor::capsule() const {
  require_bound(*this);
  return exported(false, false);
}

nb::object Tensor::dlpack(nb::handle stream, nb::handle max_version, nb::handle dl_device,
                          nb::handle copy) const {
  const bool versioned = !max_version.is_none() && pair_of(max_version, "max_version").first >= 1;
  const std::optional<bool> wants_copy = copy_argument(copy, "__dlpack__");
  const dlpack::DLDevice here = memory_->place();
  std::pair<std::int64_t, std::int64_t> there(here.device_type, here.device_id);
  if (!dl_device.is_none()) there = pair_of(dl_device, "dl_device");
  if (there == std::pair<std::int64_t, std::int64_t>(here.device_type, here.device_id)) {
    if (wants_copy == true) {
      const Tensor copied = this->copy();
      bind_consumer(copied, stream);
      return copied.exported(versioned, true);
    }
    bind_consumer(*this, stream);
    return exported(versioned, false);
  }
  if (there.first != dlpack::kDLCPU || is_cpu(here)) {
    throw nb::buffer_error(("leat: " + info_.name + " on " + memory_->device_name() +
                            " can be exported to its own device " + name_of(here) +
                            " and to the CPU (1, 0), not to (" + std::to_string(there.first) +
                            ", " + std::to_string(there.second) + ")")
                               .c_str());
  }
  if (wants_copy == false) {
    throw nb::buffer_error(("leat: " + info_.name + " on " + memory_->device_name() +
                            " reaches the CPU by a copy only: pass copy=None")
                               .c_str());
  }
  if (!stream.is_none()) static_cast<void>(stream_of(memory_->device(), stream));  // is it one?
  CopiedMemory host = copy_to_host(*memory_, data_, info_.bytes());
  return Tensor(info_, std::move(host.memory), host.data).exported(versioned, true);
}

}  // namespace leat::python
