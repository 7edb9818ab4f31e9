#include "leat/comm/transports/nccl/launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "leat/comm/transports/reduce.h"
#include "leat/csp/base/assert.h"

namespace leat::comm::nccl {
namespace {

/// Of what can be combined. Copies are of bytes.
ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return ncclInt32;
    case DType::kInt64: return ncclInt64;
    case DType::kFloat16: return ncclFloat16;
    case DType::kBFloat16: return ncclBfloat16;
    case DType::kFloat64: return ncclFloat64;
    default: break;
  }
  LEAT_ASSERT(dtype == DType::kFloat32, "a type that cannot be combined");
  return ncclFloat32;
}

std::byte* at(const void* memory, std::uint64_t offset) noexcept {
  return const_cast<std::byte*>(static_cast<const std::byte*>(memory)) + offset;
}

/// To the nearest, ties to even; of 0 to 1.
std::uint16_t half_of(float x) noexcept {
  if (x == 0) return 0;
  const int lowest = std::max(std::ilogb(x), -14) - 10;  // the power of two of the last place
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(x, -lowest)));
  return static_cast<std::uint16_t>(steps < 1024 ? steps : ((lowest + 24) << 10) + steps);
}
std::uint16_t bfloat_of(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// The sum of weighted inputs: an operator of NCCL's, whose factor is of the type of the elements.
class WeightedSum {
 public:
  WeightedSum(Native& native, DType dtype, float weight) : native_(native) {
    double wide = static_cast<double>(weight);
    std::uint16_t narrow = dtype == DType::kFloat16 ? half_of(weight) : bfloat_of(weight);
    void* factor = &narrow;
    if (dtype == DType::kFloat32) factor = &weight;
    if (dtype == DType::kFloat64) factor = &wide;
    native_.call("ncclRedOpCreatePreMulSum", [&](ncclComm_t comm) {
      return native_.library().red_op_create(&operator_, factor, type_of(dtype),
                                             ncclScalarHostImmediate, comm);
    });
  }
  WeightedSum(const WeightedSum&) = delete;
  WeightedSum& operator=(const WeightedSum&) = delete;
  ~WeightedSum() = default;  // with an error of NCCL's, which ends the communicator and all of its
  [[nodiscard]] ncclRedOp_t get() const noexcept { return operator_; }
  void destroy() {
    native_.call("ncclRedOpDestroy", [&](ncclComm_t comm) {
      return native_.library().red_op_destroy(operator_, comm);
    });
  }

 private:
  Native& native_;
  ncclRedOp_t operator_ = ncclSum;
};

/// Calls f(rank, offset in bytes, elements) for each chunk that has elements, as one call of
/// NCCL's.
template <class F>
ncclResult_t for_each_chunk(const Library& library, const Signature& called, int size, const F& f) {
  ncclResult_t result = library.group_start();
  if (result != ncclSuccess) return result;
  for (int rank = 0; rank < size && result == ncclSuccess; ++rank) {
    const auto [first, second] = chunk_of(called.count, rank, size);
    if (first == second) continue;
    result = f(rank, first * gpu::size_of(called.dtype), second - first);
    if (result == ncclInProgress) result = ncclSuccess;
  }
  const ncclResult_t ended = library.group_end();
  return result != ncclSuccess ? result : ended;
}

ncclResult_t call(Native& native, const Work& work, ncclRedOp_t op, int rank, int size,
                  ncclComm_t comm) {
  const Library& library = native.library();
  const cudaStream_t stream = native.native_stream();
  const Signature& called = work.signature;
  const std::size_t element = gpu::size_of(called.dtype);
  const std::uint64_t bytes = work.bytes();
  const bool is_even = called.count % static_cast<std::uint64_t>(size) == 0;
  switch (called.kind) {
    case OperationKind::kAllReduce:
      return library.all_reduce(work.in != nullptr ? work.in : work.out, work.out, called.count,
                                type_of(called.dtype), op, comm, stream);
    case OperationKind::kReduceScatter:
      if (is_even) {
        return library.reduce_scatter(work.in, work.out,
                                      called.count / static_cast<std::uint64_t>(size),
                                      type_of(called.dtype), op, comm, stream);
      }
      return for_each_chunk(library, called, size, [&](int root, std::uint64_t offset, auto count) {
        return library.reduce(at(work.in, offset), root == rank ? work.out : nullptr, count,
                              type_of(called.dtype), op, root, comm, stream);
      });
    case OperationKind::kAllGather:
      if (is_even) {
        return library.all_gather(work.in, work.out, bytes / static_cast<std::uint64_t>(size),
                                  ncclUint8, comm, stream);
      }
      return for_each_chunk(library, called, size, [&](int root, std::uint64_t offset, auto count) {
        const void* const from = root == rank ? work.in : at(work.out, offset);
        return library.broadcast(from, at(work.out, offset), count * element, ncclUint8, root, comm,
                                 stream);
      });
    case OperationKind::kBroadcast:
      return library.broadcast(work.out, work.out, bytes, ncclUint8, called.root, comm, stream);
    case OperationKind::kSend:
      return library.send(work.in, bytes, ncclUint8, 1 - rank, comm, stream);
    case OperationKind::kRecv:
      return library.recv(work.out, bytes, ncclUint8, 1 - rank, comm, stream);
    case OperationKind::kBarrier: break;  // has no data
  }
  return ncclSuccess;
}

const char* name_of(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::kAllReduce: return "ncclAllReduce";
    case OperationKind::kReduceScatter: return "ncclReduceScatter";
    case OperationKind::kAllGather: return "ncclAllGather";
    case OperationKind::kBroadcast: return "ncclBroadcast";
    case OperationKind::kSend: return "ncclSend";
    default: return "ncclRecv";
  }
}

}  // namespace

void launch(Native& native, const Work& work, int rank, int size) {
  const Signature& called = work.signature;
  const bool is_integer = called.dtype == DType::kInt32 || called.dtype == DType::kInt64;
  std::optional<WeightedSum> weighted;
  if (called.is_weighted && !is_integer) {
    weighted.emplace(native, called.dtype,
                     weight_of(work.agreement.samples, work.agreement.total_samples));
  }
  ncclRedOp_t op = called.reduction == Reduction::kMax ? ncclMax : ncclSum;
  if (weighted) op = weighted->get();
  native.call(name_of(called.kind),
              [&](ncclComm_t comm) { return call(native, work, op, rank, size, comm); });
  if (weighted) weighted->destroy();
}

}  // namespace leat::comm::nccl
