#include "leat/feeder/interop/dlpack.h"

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "leat/feeder/tensor.h"

namespace leat::feeder::dlpack {
namespace {

// An exported tensor, and the objects that it owns. The shape is a copy, because DLPack's is not
// const.
template <class Managed>
struct Holder {
  Managed managed{};
  std::shared_ptr<void> owner;
  std::vector<std::int64_t> extents;  // the shape, then the strides
};

template <class Managed>
void destroy(Managed* self) noexcept {
  delete static_cast<Holder<Managed>*>(self->manager_ctx);
}

void prepare(const std::shared_ptr<Lease>& lease, const std::optional<gpu::StreamRef>& stream) {
  if (lease == nullptr) throw std::invalid_argument("leat: to_dlpack: there is no lease");
  if (stream.has_value()) lease->on(*stream);
  // A consumer on the CPU reads at once and does not wait for a stream of the host device.
  if (lease->device().capabilities().device_memory_is_host_memory) lease->await();
}

template <class Managed>
Exported<Managed> exported(const std::shared_ptr<Lease>& lease, const Tensor& tensor) {
  return view_to_dlpack<Managed>(lease, {.data = tensor.raw(),
                                         .device = device_of(lease->device()),
                                         .dtype = tensor.dtype(),
                                         .shape = tensor.shape()});
}

}  // namespace

template <class Managed>
// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from
Exported<Managed> view_to_dlpack(std::shared_ptr<void> owner, const View& view) {
  auto holder = std::make_unique<Holder<Managed>>();
  holder->owner = std::move(owner);
  const std::size_t ndim = view.shape.size();
  holder->extents.reserve(2 * ndim);
  holder->extents.assign(view.shape.begin(), view.shape.end());
  holder->extents.resize(2 * ndim);
  std::int64_t elements = 1;
  for (std::size_t i = ndim; i-- > 0;) {
    holder->extents[ndim + i] = elements;
    elements *= holder->extents[i];
  }
  Managed& managed = holder->managed;
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    managed.version = {.major = 1, .minor = 0};
    managed.flags = view.is_copy ? kDLPackFlagIsCopied : 0;
  }
  managed.dl_tensor = {.data = elements == 0 ? nullptr : view.data,
                       .device = view.device,
                       .ndim = static_cast<std::int32_t>(ndim),
                       .dtype = data_type_of(view.dtype),
                       .shape = holder->extents.data(),
                       .strides = holder->extents.data() + ndim,
                       .byte_offset = 0};
  managed.manager_ctx = holder.get();
  managed.deleter = destroy<Managed>;
  return Exported<Managed>(&holder.release()->managed);
}

template <class Managed>
Exported<Managed> to_dlpack(const std::shared_ptr<Lease>& lease, std::string_view name,
                            const std::optional<gpu::StreamRef>& stream) {
  prepare(lease, stream);
  return exported<Managed>(lease, (*lease)[name]);
}

template <class Managed>
std::vector<Named<Managed>> all_to_dlpack(const std::shared_ptr<Lease>& lease,
                                          const std::optional<gpu::StreamRef>& stream) {
  prepare(lease, stream);
  const TensorSet tensors = lease->tensors();
  std::vector<Named<Managed>> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor tensor = tensors[i];
    if (tensors[tensor.name()].raw() != tensor.raw()) continue;  // a transform has replaced it
    all.push_back({std::string(tensor.name()), exported<Managed>(lease, tensor)});
  }
  return all;
}

template Exported<DLManagedTensor> view_to_dlpack(std::shared_ptr<void>, const View&);
template Exported<DLManagedTensorVersioned> view_to_dlpack(std::shared_ptr<void>, const View&);
template Exported<DLManagedTensor> to_dlpack(const std::shared_ptr<Lease>&, std::string_view,
                                             const std::optional<gpu::StreamRef>&);
template Exported<DLManagedTensorVersioned> to_dlpack(const std::shared_ptr<Lease>&,
                                                      std::string_view,
                                                      const std::optional<gpu::StreamRef>&);
template std::vector<Named<DLManagedTensor>> all_to_dlpack(const std::shared_ptr<Lease>&,
                                                           const std::optional<gpu::StreamRef>&);
template std::vector<Named<DLManagedTensorVersioned>> all_to_dlpack(
    const std::shared_ptr<Lease>&, const std::optional<gpu::StreamRef>&);

std::optional<gpu::StreamRef> consumer_stream(const gpu::Device& device,
                                              std::optional<std::int64_t> stream) {
  if (device_of(device).device_type == kDLCPU) {
    if (!stream.has_value()) return std::nullopt;
    throw std::invalid_argument("leat: __dlpack__ on " + device.name() + ": stream is " +
                                std::to_string(*stream) + ", but a CPU has none: pass None");
  }
  constexpr std::int64_t kNoSynchronisation = -1;
  constexpr std::int64_t kLegacyDefault = 1;
  const std::int64_t number = stream.value_or(kLegacyDefault);
  if (number == kNoSynchronisation) return std::nullopt;
  if (number == kLegacyDefault) return gpu::StreamRef::legacy(device);
  if (number < 1) {
    throw std::invalid_argument("leat: __dlpack__ on " + device.name() + ": stream is " +
                                std::to_string(number) +
                                "; it has to be None, -1, 1 or a cudaStream_t");
  }
  return gpu::StreamRef::from_native(device, reinterpret_cast<void*>(number));
}

DLDevice device_of(const gpu::Device& device) {
  if (device.capabilities().device_memory_is_host_memory) return {kDLCPU, 0};
  const std::string& name = device.name();  // "cuda:N"
  std::int32_t number = 0;
  const char* const first = name.data() + name.find(':') + 1;
  const char* const end = name.data() + name.size();
  if (!name.starts_with("cuda:") || std::from_chars(first, end, number).ptr != end) {
    throw std::invalid_argument("leat: DLPack has no number for the device " + name);
  }
  return {kDLCUDA, number};
}

DLDataType data_type_of(DType dtype) noexcept {
  DLDataTypeCode code = kDLInt;
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: code = kDLInt; break;
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64: code = kDLUInt; break;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64: code = kDLFloat; break;
    case DType::kBFloat16: code = kDLBfloat; break;
    case DType::kBool: code = kDLBool; break;
  }
  return {.code = code, .bits = static_cast<std::uint8_t>(8 * size_of(dtype)), .lanes = 1};
}

}  // namespace leat::feeder::dlpack
