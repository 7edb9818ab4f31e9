// What operations do, once they have come on all ranks.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tests/comm/nccl/stand_in/state.h"
#include "tests/comm/support/values.h"

namespace leat::nccl_stand_in {
namespace {

using comm::support::narrow;
using comm::support::widen;

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

namespace {

// Of T: element i of all inputs, from rank 0 up.
template <class T>
void combine(const std::vector<const Call*>& calls, std::size_t first, std::size_t count,
             const std::vector<void*>& outputs) {
  std::vector<T> sums(count);
  for (std::size_t i = 0; i < count; ++i) {
    using Wide = decltype(widen(T{}));
    Wide sum{};
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      const Call& one = *calls[rank];
      Wide x = widen(static_cast<const T*>(one.send)[first + i]);
      if constexpr (!std::is_integral_v<Wide>) {
        if (one.op >= ncclNumOps) x = x * static_cast<Wide>(one.weight);
      }
      if (rank == 0) {
        sum = x;
      } else if (one.op == ncclMax) {
        sum = std::max(sum, x);
      } else if constexpr (std::is_integral_v<Wide>) {
        using Unsigned = std::make_unsigned_t<Wide>;
        sum = static_cast<Wide>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(x));
      } else {
        sum = sum + x;
      }
    }
    sums[i] = narrow<T>(sum);
  }
  for (void* const to : outputs) std::memcpy(to, sums.data(), count * sizeof(T));
}

void combine(const std::vector<const Call*>& calls, std::size_t first, std::size_t count,
             const std::vector<void*>& outputs) {
  switch (calls.front()->type) {
    case ncclFloat32: return combine<float>(calls, first, count, outputs);
    case ncclFloat64: return combine<double>(calls, first, count, outputs);
    case ncclInt32: return combine<std::int32_t>(calls, first, count, outputs);
    case ncclInt64: return combine<std::int64_t>(calls, first, count, outputs);
    case ncclFloat16: return combine<gpu::Float16>(calls, first, count, outputs);
    case ncclBfloat16: return combine<gpu::BFloat16>(calls, first, count, outputs);
    default: die("a sum of a type that is not modelled");
  }
}

void perform(const std::vector<const Call*>& calls) {
  const Call& first = *calls.front();
  const auto ranks = calls.size();
  if (first.kind == Kind::kP2p) {
    const Call* const from = calls[0]->send != nullptr ? calls[0] : calls[1];
    const Call* const to = calls[0]->send != nullptr ? calls[1] : calls[0];
    if (ranks != 2 || to->recv == nullptr || from->send == nullptr || from->count != to->count) {
      die("a send and a recv that do not fit together: NCCL would wait for ever");
    }
    std::memcpy(to->recv, from->send, from->count * size_of(from->type));
    return;
  }
  for (const Call* const one : calls) {
    if (!one->fits(first)) die("ranks call different things: NCCL would hang, or compute nonsense");
  }
  const std::size_t bytes = first.count * size_of(first.type);
  std::vector<void*> outputs;
  for (const Call* const one : calls) outputs.push_back(one->recv);
  const auto root = static_cast<std::size_t>(std::max(first.root, 0));
  switch (first.kind) {
    case Kind::kAllReduce: return combine(calls, 0, first.count, outputs);
    case Kind::kReduce: return combine(calls, 0, first.count, {calls[root]->recv});
    case Kind::kReduceScatter: {
      // In place, a rank's output is a part of its input that nobody else reads.
      for (std::size_t i = 0; i < ranks; ++i) {
        combine(calls, i * first.count, first.count, {outputs[i]});
      }
      return;
    }
    case Kind::kAllGather:
      for (std::size_t i = 0; i < ranks; ++i) {
        for (void* const to : outputs) {
          std::memmove(static_cast<std::byte*>(to) + i * bytes, calls[i]->send, bytes);
        }
      }
      return;
    case Kind::kBroadcast:
      for (void* const to : outputs) std::memmove(to, calls[root]->send, bytes);
      return;
    case Kind::kP2p: return;
  }
}

}  // namespace

void execute(ncclComm* comm, const std::vector<Call>& calls) {
  Lock lock(all().mutex);
  ++comm->running;
  for (const Call& call : calls) {
    if (comm->is_aborted) break;
    Group& group = *comm->group;
    Meeting& meeting = group.meetings[comm->executed++];
    meeting.calls.resize(static_cast<std::size_t>(group.size));
    meeting.calls[static_cast<std::size_t>(comm->rank)] = &call;
    ++all().operations;
    const bool ends = all().never_ends_in == 0 || --all().never_ends_in > 0;
    if (!ends && all().never_ends_with_error) {
      comm->state = ncclRemoteError;
      all().words = "the stand-in's remote process has ended";
    }
    if (ends && ++meeting.come == group.size) {
      perform(meeting.calls);
      meeting.done = true;
      all().progress.notify_all();
    }
    all().progress.wait(lock, [&] { return meeting.done || comm->is_aborted; });
    if (!meeting.done && ends) --meeting.come;  // its memory is not used any more
  }
  --comm->running;
  all().progress.notify_all();
}

}  // namespace leat::nccl_stand_in
