#include <cstddef>
#include <cstdint>
#include <memory>

#include "leat/feeder/interop/c/calls.h"
#include "leat/gpu/stream.h"

namespace leat::feeder::c {
namespace {

// The size of the struct's first version.
constexpr std::size_t kFirstInfo = offsetof(leat_batch_info, elements);

/// Calls `use` with the object behind the handle. The object is in use until this call returns.
template <class Use>
leat_status with_batch(const leat_batch* batch, const char* function, Use&& use) {
  return call(function, [&](const char*) {
    const auto open = batches().find(batch, function);
    const OnlyUser alone(open->in_use, function);
    use(*open, function);
    return LEAT_OK;
  });
}

template <class EndLease>
leat_status end(leat_batch* batch, const char* function, EndLease&& end_lease) {
  if (batch == nullptr) return LEAT_OK;
  return with_batch(batch, function, [&](OpenBatch& open, const char*) {
    static_cast<void>(batches().remove(batch, function));
    end_lease(open.lease);
  });
}

void give(const Tensor& from, leat_tensor* to) noexcept {
  *to = {.name = from.name().data(),  // a Field's std::string, so it ends with a null byte
         .data = from.raw(),
         .dtype = static_cast<std::int32_t>(from.dtype()),
         .ndim = static_cast<std::int32_t>(from.shape().size()),
         .shape = from.shape().data(),
         .bytes = from.bytes()};
}

}  // namespace
}  // namespace leat::feeder::c

using namespace leat::feeder::c;  // NOLINT(google-build-using-namespace): this is its C API
using leat::feeder::Lease;

extern "C" {

leat_status leat_batch_bind(leat_batch* batch, void* stream) {
  return with_batch(batch, __func__, [&](OpenBatch& open, const char*) {
    open.lease.on(leat::gpu::StreamRef::from_native(open.lease.device(), stream));
  });
}

leat_status leat_batch_get_info(leat_batch* batch, leat_batch_info* info, size_t size) {
  return with_batch(batch, __func__, [&](OpenBatch& open, const char* function) {
    require(info, function, "info");
    const Lease& lease = open.lease;
    const leat_batch_info all{.samples = lease.size(),
                              .rows = lease.rows(),
                              .epoch = lease.epoch(),
                              .index = lease.index(),
                              .step_size = lease.step_size(),
                              .step_shards = lease.step_shards(),
                              .tensors = open.tensors,
                              .elements = lease.elements()};
    give_struct(all, info, size, kFirstInfo, function, "leat_batch_info");
  });
}

leat_status leat_batch_tensor(leat_batch* batch, size_t index, leat_tensor* tensor) {
  return with_batch(batch, __func__, [&](OpenBatch& open, const char* function) {
    require(tensor, function, "tensor");
    give(open.lease.tensors()[index], tensor);
  });
}

leat_status leat_batch_tensor_named(leat_batch* batch, const char* name, leat_tensor* tensor) {
  return with_batch(batch, __func__, [&](OpenBatch& open, const char* function) {
    require(name, function, "name");
    require(tensor, function, "tensor");
    give(open.lease[name], tensor);
  });
}

leat_status leat_batch_release(leat_batch* batch) {
  return end(batch, __func__, [](Lease& lease) { lease.release(); });
}

leat_status leat_batch_abandon(leat_batch* batch) {
  return end(batch, __func__, [](Lease& lease) { lease.abandon(); });
}

}  // extern "C"
