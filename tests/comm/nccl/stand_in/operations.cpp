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
void combine(Group& group, std::size_t first, std::size_t count, void* output) {
  std::vector<T> sums(count);
  for (std::size_t i = 0; i < count; ++i) {
    using Wide = decltype(widen(T{}));
    Wide sum{};
    for (int rank = 0; rank < group.size; ++rank) {
      const Call& one = group.ranks[rank].call;
      Wide x = widen(reinterpret_cast<const T*>(group.sent_by(rank))[first + i]);
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
  std::memcpy(output, sums.data(), count * sizeof(T));
}

void combine(Group& group, ncclDataType_t type, std::size_t first, std::size_t count,
             void* output) {
  switch (type) {
    case ncclFloat32: return combine<float>(group, first, count, output);
    case ncclFloat64: return combine<double>(group, first, count, output);
    case ncclInt32: return combine<std::int32_t>(group, first, count, output);
    case ncclInt64: return combine<std::int64_t>(group, first, count, output);
    case ncclFloat16: return combine<gpu::Float16>(group, first, count, output);
    case ncclBfloat16: return combine<gpu::BFloat16>(group, first, count, output);
    default: die("a sum of a type that is not modelled");
  }
}

// What the rank has of it, once all have come. Reads what was sent, and writes the rank's memory.
void perform(Group& group, int rank) {
  const Call& mine = group.ranks[rank].call;
  if (mine.kind == Kind::kP2p) {
    const Call& other = group.ranks[1 - rank].call;
    const bool sends = mine.send != nullptr;
    if (group.size != 2 || other.kind != Kind::kP2p || sends == (other.send != nullptr) ||
        other.count != mine.count) {
      die("a send and a recv that do not fit together: NCCL would wait for ever");
    }
    if (!sends) std::memcpy(mine.recv, group.sent_by(1 - rank), mine.count * size_of(mine.type));
    return;
  }
  for (int other = 0; other < group.size; ++other) {
    if (!group.ranks[other].call.fits(mine)) {
      die("ranks call different things: NCCL would hang, or compute nonsense");
    }
  }
  const std::size_t bytes = mine.count * size_of(mine.type);
  switch (mine.kind) {
    case Kind::kAllReduce: return combine(group, mine.type, 0, mine.count, mine.recv);
    case Kind::kReduce:
      if (rank == mine.root) combine(group, mine.type, 0, mine.count, mine.recv);
      return;
    case Kind::kReduceScatter:
      return combine(group, mine.type, static_cast<std::size_t>(rank) * mine.count, mine.count,
                     mine.recv);
    case Kind::kAllGather:
      for (int from = 0; from < group.size; ++from) {
        std::memcpy(static_cast<std::byte*>(mine.recv) + static_cast<std::size_t>(from) * bytes,
                    group.sent_by(from), bytes);
      }
      return;
    case Kind::kBroadcast: std::memcpy(mine.recv, group.sent_by(mine.root), bytes); return;
    case Kind::kP2p: return;
  }
}

// What the rank lets the others read.
void send(Group& group, int rank, const Call& call) {
  const bool sends = call.send != nullptr && (call.kind != Kind::kBroadcast || rank == call.root);
  if (!sends) return;
  const std::size_t times =
      call.kind == Kind::kReduceScatter ? static_cast<std::size_t>(group.size) : 1;
  const std::size_t bytes = times * call.count * size_of(call.type);
  if (bytes > Group::kMostBytes) die("an operation of more bytes than the stand-in has room for");
  std::memcpy(group.sent_by(rank), call.send, bytes);
}

// Whether it is to end; a test may have asked that it does not.
bool ends(ncclComm* comm) {
  const Lock lock(all().mutex);
  ++all().operations;
  if (all().never_ends_in == 0 || --all().never_ends_in > 0) return true;
  if (all().never_ends_with_error) {
    comm->state = ncclRemoteError;
    all().words = "the stand-in's remote process has ended";
  }
  return false;
}

}  // namespace

void execute(ncclComm* comm, const std::vector<Call>& calls) {
  Group& group = *comm->group;
  Group::Rank& mine = group.ranks[comm->rank];
  const auto others_have = [&](std::uint64_t Group::Rank::*what, std::uint64_t count) {
    return std::all_of(group.ranks, group.ranks + group.size,
                       [&](const Group::Rank& one) { return one.*what >= count; });
  };
  {
    const Lock lock(all().mutex);
    ++comm->running;
  }
  for (const Call& call : calls) {
    if (comm->is_aborted) break;
    const bool comes = ends(comm);
    GroupLock lock(group);
    const std::uint64_t number = mine.come;
    const auto wait_for = [&](std::uint64_t Group::Rank::*what, std::uint64_t count) {
      lock.wait([&] { return comm->is_aborted || others_have(what, count); });
    };
    wait_for(&Group::Rank::ended, number);  // what it has sent before was read
    if (comm->is_aborted) break;
    if (comes) {
      mine.call = call;
      send(group, comm->rank, call);
      mine.come = number + 1;
      lock.notify();
    }
    wait_for(&Group::Rank::come, number + 1);
    if (comm->is_aborted) break;
    perform(group, comm->rank);
    mine.ended = number + 1;
    lock.notify();
  }
  const Lock lock(all().mutex);
  --comm->running;
  all().progress.notify_all();
}

}  // namespace leat::nccl_stand_in
