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
//    signatures were equal. Otherwise the world fails with a mismatch that has what each rank
//    called. A rank that has left (leave()) is a mismatch, too.
//  - A send completes once its recv has the data. Sends and receives of two ranks are matched by
//    key, those of one key in order. Count and dtype must be equal.
//  - Sums have the same bits on all ranks and transports: those of transports/reduce.h, of the
//    ranks that contribute, with weight 1 unless the signature is weighted. Sums in device memory
//    have the same bits on all ranks alone.
//  - Notices of one rank to another arrive in order, each once. They wait for listen().
//  - When the world fails, the transport stops to use the memory of operations before their
//    finished() is called.
//  - Every function is thread- and fiber-safe, and none of them parks a fiber for longer than a
//    lock is held; only stop() may wait for a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/comm/transports/operation.h"
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
  /// Calls leave() first: the implementation's destructor does.
  virtual ~Transport() = default;

  /// This rank in the communicator, 0 to size() - 1.
  [[nodiscard]] virtual int rank() const noexcept = 0;
  /// The number of ranks.
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// This rank in the world.
  [[nodiscard]] virtual int world_rank() const noexcept = 0;
  /// What this process's ends share.
  [[nodiscard]] virtual World& world() const noexcept = 0;

  /// The device in whose memory operations have their data whose signature says on_device; null:
  /// there are none, all data is in the host's memory.
  [[nodiscard]] virtual const gpu::Device* device() const noexcept { return nullptr; }

  /// Begins an operation; see the contract. If the world is dead, finishes it at once. May call
  /// help_wanted() of operations that others have begun, before their finished().
  virtual void begin(Operation& operation) noexcept = 0;
  /// Does a part of the operation's work on the caller, if there is some to do. Called by a rank
  /// that would wait otherwise, while the operation has not finished or even after. The default
  /// does nothing.
  virtual void help(Operation& /*operation*/) noexcept {}

  /// This rank's end of another communicator, of `members` (ranks of this one, in their new order;
  /// this rank is among them). `context` is the same on all of them, and of no other communicator.
  /// Exchanges no message. Throws std::bad_alloc.
  [[nodiscard]] virtual std::shared_ptr<Transport> subset(std::uint64_t context,
                                                          std::span<const int> members) = 0;
  /// Names this communicator among those of the world; the same on all of its ranks.
  [[nodiscard]] virtual std::uint64_t context() const noexcept = 0;

  /// Sends notices to a rank of this communicator, itself included. Never waits for it. Without
  /// effect if the world is dead.
  virtual void post(int to, std::span<const Notice> notices) = 0;
  /// Makes what `operations` collectives need that are under way at once, so that none of them
  /// allocates; or nothing. Once for each end; all ranks give the same number. Throws
  /// std::bad_alloc.
  virtual void reserve(std::size_t /*operations*/) {}
  /// From now on, notices to this rank are sent to `notices`, those that wait first. There is
  /// always room: the caller's protocol bounds them. Once for each end.
  virtual void listen(Channel<Notice> notices) = 0;

  /// Tells the other ranks that this one takes part in nothing more of this communicator: what
  /// waits for it, there or here, fails as a mismatch. Idempotent. Does not wait.
  virtual void leave() noexcept = 0;
};

}  // namespace leat::comm
