// The transport seam: the one polymorphic interface between Leat and what carries data between
// ranks. transports/local/, transports/mpi/ and transports/nccl/ implement it; Communicator and
// GradientExchange use it.
//
// A Transport is one rank's end of one communicator. All ends that came from one comm::open() in
// this process share a World (transports/world.h): the deadline, the failure, the scheduler.
//
// Contract, for every transport:
//  - begin() takes an operation and returns without waiting for peers. The operation's
//    finished() is called once. It may compute meanwhile, if this rank is the last to come.
//  - A collective completes on a rank after every rank has begun one of the same number, and all
//    signatures were equal. Otherwise the world fails with a mismatch that says what each rank
//    called. A rank that has left (leave()) is a mismatch, too.
//  - A send completes once its recv has the data. Sends and receives of two ranks are matched by
//    key, those of one key in order. Count and dtype must be equal.
//  - Sums have the same bits on all ranks and transports. transports/reduce.h defines them, over
//    the ranks that contribute, with weight 1 unless the signature is weighted. Sums in device
//    memory have the same bits on all ranks only.
//  - Notices of one rank to another arrive in order, each once. They wait for listen().
//  - When the world fails, the transport stops using the memory of operations before their
//    finished() is called.
//  - Every function is thread- and fiber-safe, and none of them parks a fiber for longer than a
//    lock is held; only stop() may wait for a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "leat/comm/transports/operation.h"
#include "leat/csp/base/random.h"
#include "leat/csp/channel.h"
#include "leat/gpu/device.h"

namespace leat::comm {

class World;

/// One rank's end of one communicator.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// The implementation's destructor calls leave() first.
  virtual ~Transport() = default;

  /// This rank in the communicator, 0 to size() - 1.
  [[nodiscard]] virtual int rank() const noexcept = 0;
  /// The number of ranks.
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// This rank in the world.
  [[nodiscard]] virtual int world_rank() const noexcept = 0;
  /// What this process's ends share.
  [[nodiscard]] virtual World& world() const noexcept = 0;

  /// The device whose memory holds the data of operations with Signature::on_device. Null: all data
  /// is in host memory.
  [[nodiscard]] virtual const gpu::Device* device() const noexcept { return nullptr; }

  /// Begins an operation; see the contract. If the world is dead, finishes it at once. May call
  /// help_wanted() of operations that others have begun, before their finished().
  virtual void begin(Operation& operation) noexcept = 0;
  /// Does a part of the operation's work on the caller, if there is some to do. Called by a rank
  /// that would wait otherwise, before the operation has finished or even after. The default does
  /// nothing.
  virtual void help(Operation& /*operation*/) noexcept {}

  /// This rank's end of another communicator, of `members` (ranks of this one, in their new order;
  /// this rank is among them). `context` is the same on all of them, and of no other communicator.
  /// Exchanges no message. Throws std::bad_alloc.
  [[nodiscard]] virtual std::shared_ptr<Transport> subset(std::uint64_t context,
                                                          std::span<const int> members) = 0;
  /// This rank's end of another communicator of the same ranks, for a purpose that `salt` names.
  [[nodiscard]] std::shared_ptr<Transport> sibling(std::uint64_t salt) {
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    return subset(mix(context() ^ salt), all);
  }
  /// Names this communicator among those of the world; the same on all of its ranks.
  [[nodiscard]] virtual std::uint64_t context() const noexcept = 0;

  /// Sends notices to a rank of this communicator, itself included. Never waits for it. Without
  /// effect if the world is dead.
  virtual void post(int to, std::span<const Notice> notices) = 0;
  /// Allocates what `operations` collectives under way at once need, so that none of them
  /// allocates. Called once for each end; all ranks give the same number. The default does nothing.
  /// Throws std::bad_alloc.
  virtual void reserve(std::size_t /*operations*/) {}
  /// Sends notices to this rank to `notices` from now on, first those that wait already. There is
  /// always room: the caller's protocol bounds them. Called once for each end.
  virtual void listen(Channel<Notice> notices) = 0;

  /// Tells the other ranks that this one takes part in nothing more of this communicator: what
  /// waits for it, there or here, fails as a mismatch. Idempotent. Does not wait.
  virtual void leave() noexcept = 0;
};

}  // namespace leat::comm
