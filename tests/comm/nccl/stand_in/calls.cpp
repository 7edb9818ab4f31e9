// NCCL's functions.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/comm/nccl/stand_in/state.h"
#include "tests/comm/support/values.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"

using namespace leat::nccl_stand_in;  // NOLINT(google-build-using-namespace): NCCL's are global
using leat::comm::support::widen;

namespace {

struct Enqueued {
  std::shared_ptr<ncclComm> comm;  // may be aborted before its stream comes to it, or never does
  std::vector<Call> calls;
};
struct Thread {
  int depth = 0;
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
};
thread_local Thread t_group;

// The body of every function: counted, and perhaps failing.
template <class F>
ncclResult_t api(const char* name, F&& f) {
  Lock lock(all().mutex);
  if (all().fails_in > 0 && --all().fails_in == 0) {
    all().has_failed = true;
    all().words = std::string("the stand-in was told that ") + name + " fails";
    return ncclSystemError;
  }
  return f(lock);
}

void require_ready(const char* name, ncclComm* comm) {
  if (comm == nullptr) die(std::string(name) + " without a communicator");
  if (comm->is_aborted) die(std::string(name) + " after an abort");
  if (comm->state == ncclInProgress) die(std::string(name) + " while another call is in progress");
  int device = -1;
  static_cast<void>(cudaGetDevice(&device));
  if (device != comm->device) die(std::string(name) + " with another device current");
}

ncclResult_t in_progress(ncclComm* comm, cudaStream_t stream, std::vector<Call> calls) {
  comm->state = ncclInProgress;
  comm->launches = [comm, stream, calls = std::move(calls)] {
    auto* const enqueued = new Enqueued{comm->self, calls};
    const auto run = [](void* argument) {
      const std::unique_ptr<Enqueued> one(static_cast<Enqueued*>(argument));
      execute(one->comm.get(), one->calls);
    };
    all().mutex.unlock();
    const cudaError_t code = cudaLaunchHostFunc(stream, run, enqueued);
    all().mutex.lock();
    if (code == cudaSuccess) return;
    delete enqueued;
    comm->state = ncclUnhandledCudaError;
  };
  return ncclInProgress;
}

ncclResult_t enqueue(const char* name, ncclComm* comm, cudaStream_t stream, Call call) {
  return api(name, [&](Lock&) {
    require_ready(name, comm);
    if (call.op >= ncclNumOps) {
      const auto found = comm->weights.find(call.op);
      if (found == comm->weights.end()) die(std::string(name) + " with an operator that is none");
      call.weight = found->second;
    }
    const auto ranks = static_cast<std::size_t>(comm->group->size);
    const std::size_t bytes = call.count * size_of(call.type);
    const auto check = [&](const void* memory, std::size_t times) {
      if (memory != nullptr && !leat::stand_in::is_device_memory(memory, times * bytes)) {
        die(std::string(name) + " of memory that is not the device's");
      }
    };
    check(call.send, call.kind == Kind::kReduceScatter ? ranks : 1);
    check(call.recv, call.kind == Kind::kAllGather ? ranks : 1);
    if (t_group.depth == 0) return in_progress(comm, stream, {call});
    t_group.comm = comm;
    t_group.stream = stream;
    t_group.calls.push_back(call);
    return ncclSuccess;
  });
}

// Of which nothing is used any more.
void end(ncclComm* comm) {
  all().live -= 1 + comm->weights.size();
  if (comm->file >= 0) close(std::exchange(comm->file, -1));
  comm->launches = {};
  comm->self = nullptr;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const Lock lock(all().mutex);
  *version = all().version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "another error";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  const Lock lock(all().mutex);
  return all().words.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return api("ncclGetUniqueId", [&](Lock&) {
    const GroupName name = make_group();
    *id = {};
    std::memcpy(id->internal, &name, sizeof name);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return api("ncclCommInitRankConfig", [&](Lock&) {
    GroupName name;
    std::memcpy(&name, id.internal, sizeof name);
    if (config->blocking != 0) die("a communicator that blocks");
    const auto shared = std::make_shared<ncclComm>();
    ncclComm* const comm = shared.get();
    comm->self = shared;
    comm->group = open_group(name);
    comm->rank = rank;
    if (rank == 0) comm->file = name.file;  // rank 0 has made the name
    if (cudaGetDevice(&comm->device) != cudaSuccess) die("no device is current");
    Group& group = *comm->group;
    const GroupLock lock(group);
    if (group.size != 0 && group.size != size) die("communicators of different sizes");
    if (size > static_cast<int>(Group::kMostRanks))
      die("more ranks than the stand-in has room for");
    for (const Group::Rank& other : group.ranks) {
      if (other.device == comm->device) die("two ranks on a device");
    }
    group.size = size;
    group.ranks[rank].device = comm->device;
    ++group.joined;
    ++all().live;
    if (all().never_inits) group.joined = -1'000;
    *made = comm;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return api("ncclCommGetAsyncError", [&](Lock&) {
    if (comm->state == ncclInProgress) {
      const auto all_have = [&](int Group::*done) {
        const GroupLock lock(*comm->group);
        return (*comm->group).*done == comm->group->size;
      };
      if (comm->is_initialising && all_have(&Group::joined)) {
        comm->is_initialising = false;
        comm->state = ncclSuccess;
      } else if (comm->is_finalizing && all_have(&Group::finalized)) {
        comm->state = ncclSuccess;
      } else if (comm->launches) {
        comm->state = ncclSuccess;
        std::exchange(comm->launches, {})();
      }
    }
    *state = comm->state;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return api("ncclCommFinalize", [&](Lock&) {
    require_ready("ncclCommFinalize", comm);
    comm->is_finalizing = true;
    comm->state = ncclInProgress;
    const GroupLock lock(*comm->group);
    ++comm->group->finalized;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return api("ncclCommDestroy", [&](Lock&) {
    require_ready("ncclCommDestroy", comm);
    if (!comm->is_finalizing || comm->running > 0) die("ncclCommDestroy before it is finalized");
    end(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = api("ncclCommAbort", [](Lock&) { return ncclSuccess; });
  Lock lock(all().mutex);
  if (comm->is_aborted) die("ncclCommAbort twice");
  comm->is_aborted = true;
  GroupLock(*comm->group).notify();
  all().progress.wait(lock, [&] { return comm->running == 0; });
  end(comm);
  return result;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return api("ncclRedOpCreatePreMulSum", [&](Lock&) {
    require_ready("ncclRedOpCreatePreMulSum", comm);
    if (residence != ncclScalarHostImmediate) die("an operator whose factor is elsewhere");
    double weight = 0;
    const auto read = [&]<class T>(T value) {
      std::memcpy(&value, scalar, sizeof value);
      weight = static_cast<double>(widen(value));
    };
    switch (type) {
      case ncclFloat32: read(float{}); break;
      case ncclFloat64: read(double{}); break;
      case ncclFloat16: read(leat::gpu::Float16{}); break;
      case ncclBfloat16: read(leat::gpu::BFloat16{}); break;
      default: die("an operator that weighs integers");
    }
    *op = static_cast<ncclRedOp_t>(comm->next_op++);
    comm->weights[*op] = weight;
    ++all().live;
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return api("ncclRedOpDestroy", [&](Lock&) {
    require_ready("ncclRedOpDestroy", comm);
    if (comm->weights.erase(op) != 1) die("ncclRedOpDestroy of an operator that is none");
    --all().live;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupStart() {
  return api("ncclGroupStart", [](Lock&) {
    ++t_group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  const Thread group = std::exchange(t_group, {});
  if (group.depth != 1) die("ncclGroupEnd without its start");
  return api("ncclGroupEnd", [&](Lock&) -> ncclResult_t {
    if (group.calls.empty()) return ncclSuccess;
    return in_progress(group.comm, group.stream, group.calls);
  });
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllReduce", comm, stream,
                 {.send = send, .recv = recv, .count = count, .type = type, .op = op});
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduce", comm, stream, {Kind::kReduce, send, recv, count, type, op, 1, root});
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", comm, stream,
                 {Kind::kReduceScatter, send, recv, count, type, op});
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllGather", comm, stream, {Kind::kAllGather, send, recv, count, type});
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclBroadcast", comm, stream,
                 {Kind::kBroadcast, send, recv, count, type, ncclSum, 1, root});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (peer != 1 - comm->rank) die("ncclSend to a rank that is none");
  return enqueue("ncclSend", comm, stream, {Kind::kP2p, send, nullptr, count, type});
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (peer != 1 - comm->rank) die("ncclRecv from a rank that is none");
  return enqueue("ncclRecv", comm, stream, {Kind::kP2p, nullptr, recv, count, type});
}

}  // extern "C"
