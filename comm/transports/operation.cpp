#include "leat/comm/transports/operation.h"

namespace leat::comm {

const char* to_string(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::kSend: return "send";
    case OperationKind::kRecv: return "recv";
    case OperationKind::kAllReduce: return "all_reduce";
    case OperationKind::kReduceScatter: return "reduce_scatter";
    case OperationKind::kAllGather: return "all_gather";
    case OperationKind::kBroadcast: return "broadcast";
    case OperationKind::kBarrier: return "barrier";
  }
  return "?";
}

std::string to_string(const Signature& signature) {
  const bool combines = signature.kind == OperationKind::kAllReduce ||
                        signature.kind == OperationKind::kReduceScatter;
  std::string text = to_string(signature.kind);
  if (combines && signature.reduction == Reduction::kMax) text += " (max)";
  if (signature.kind != OperationKind::kBarrier) {
    text += " of " + std::to_string(signature.count) + ' ' + gpu::to_string(signature.dtype);
  }
  if (signature.root >= 0) text += " from rank " + std::to_string(signature.root);
  const bool is_keyed =
      signature.kind == OperationKind::kSend || signature.kind == OperationKind::kRecv;
  text += (is_keyed ? " (key " : " (number ") + std::to_string(signature.number) + ')';
  return signature.on_device ? text + " in device memory" : text;
}

void throw_failure(int rank, const Failure& failure) {
  if (failure.is_mismatch) throw CommMismatch(rank, failure);
  throw CommError(rank, failure);
}

}  // namespace leat::comm
