// What the stand-in consists of, for its own files. One mutex guards all of a process; each group's
// own, which is taken last, guards the group.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>

#include <atomic>
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

/// What a communicator's ranks have in common, also those of several processes: in memory that they
/// map. Ranks copy what they send there, so that nobody reads another one's memory.
struct Group {
  static constexpr std::size_t kMostRanks = 8;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // that a rank sends at once

  struct Rank {
    Call call;                // the last one that it has come to
    std::uint64_t come = 0;   // operations
    std::uint64_t ended = 0;  // likewise: what others have sent is not read any more
    int device = -1;
  };
  pthread_mutex_t mutex;
  pthread_cond_t progress;
  int size = 0;
  int joined = 0;
  int finalized = 0;
  Rank ranks[kMostRanks];
  // The bytes of rank r begin at r * kMostBytes behind this object.
  [[nodiscard]] std::byte* sent_by(int rank) noexcept {
    return reinterpret_cast<std::byte*>(this + 1) + static_cast<std::size_t>(rank) * kMostBytes;
  }
};

/// Holds the group's mutex.
class GroupLock {
 public:
  explicit GroupLock(Group& group) : group_(group) { pthread_mutex_lock(&group_.mutex); }
  GroupLock(const GroupLock&) = delete;
  GroupLock& operator=(const GroupLock&) = delete;
  ~GroupLock() { pthread_mutex_unlock(&group_.mutex); }
  template <class Condition>
  void wait(const Condition& condition) {
    while (!condition()) pthread_cond_wait(&group_.progress, &group_.mutex);
  }
  void notify() { pthread_cond_broadcast(&group_.progress); }

 private:
  Group& group_;
};

/// The group's name: a file without a path, of the process that has made it.
struct GroupName {
  int process = 0;
  int file = -1;
};
[[nodiscard]] GroupName make_group();
/// Maps it, until the last one who has it is gone.
[[nodiscard]] std::shared_ptr<Group> open_group(const GroupName& name);

struct Globals {
  std::mutex mutex;
  std::condition_variable progress;
  int version = NCCL_VERSION_CODE;
  std::uint64_t fails_in = 0;
  std::uint64_t never_ends_in = 0;
  bool never_ends_with_error = false;
  bool has_failed = false;
  bool never_inits = false;
  std::uint64_t live = 0;
  std::uint64_t operations = 0;
  std::string words;
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
  int file = -1;  // the group's
  int device = 0;
  ncclResult_t state = ncclInProgress;
  bool is_initialising = true;
  bool is_finalizing = false;
  std::atomic<bool> is_aborted{false};
  int running = 0;                 // on streams
  std::shared_ptr<ncclComm> self;  // until it is destroyed or aborted
  std::uint64_t executed = 0;
  std::function<void()> launches;  // once it is asked about
  std::map<int, double> weights;   // of operators
  int next_op = ncclNumOps;
};
