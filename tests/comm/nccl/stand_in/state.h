// What the stand-in consists of, for its own files. One mutex guards all of it.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/comm/nccl/stand_in/stand_in.h"

namespace leat::nccl_stand_in {

using Lock = std::unique_lock<std::mutex>;

/// Ends the program: what was done is undefined in NCCL.
[[noreturn]] void die(const std::string& what);

enum class Kind : std::uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kP2p
};

struct Call {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  double weight = 1;
  int root = -1;
  [[nodiscard]] bool fits(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && root == other.root &&
           (op == other.op || (op >= ncclNumOps && other.op >= ncclNumOps));
  }
};

struct Meeting {
  std::vector<const Call*> calls;
  int come = 0;
  bool done = false;
};

struct Group {
  int size = 0;
  std::vector<ncclComm*> members;
  int joined = 0;
  int finalized = 0;
  std::map<std::uint64_t, Meeting> meetings;
};

struct Globals {
  std::mutex mutex;
  std::condition_variable progress;
  int version = NCCL_VERSION_CODE;
  std::uint64_t next_id = 0;
  std::uint64_t fails_in = 0;
  std::uint64_t never_ends_in = 0;
  bool never_ends_with_error = false;
  bool has_failed = false;
  bool never_inits = false;
  std::uint64_t live = 0;
  std::uint64_t operations = 0;
  std::string words;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups;
};
[[nodiscard]] Globals& all();

/// Runs calls of a rank's communicator, on the stream's thread: each waits for those of all ranks.
void execute(ncclComm* comm, const std::vector<Call>& calls);
[[nodiscard]] std::size_t size_of(ncclDataType_t type);

}  // namespace leat::nccl_stand_in

/// NCCL's name for it.
struct ncclComm {
  std::shared_ptr<leat::nccl_stand_in::Group> group;
  int rank = 0;
  int device = 0;
  ncclResult_t state = ncclInProgress;
  bool is_initialising = true;
  bool is_finalizing = false;
  bool is_aborted = false;
  int running = 0;                 // on streams
  std::shared_ptr<ncclComm> self;  // until it is destroyed or aborted
  std::uint64_t executed = 0;
  std::function<void()> launches;  // once it is asked about
  std::map<int, double> weights;   // of operators
  int next_op = ncclNumOps;
};
