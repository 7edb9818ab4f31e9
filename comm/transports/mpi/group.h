// One communicator on this rank: its ranks, its collectives and its sends and receives, as MPI's
// thread sees them.
//
// Always true:
//  - What other ranks say of an operation that this one has not begun waits here, in order.
//  - Sends and receives of one rank and key are matched in the order in which they were begun.
//  - What a rank says to itself goes through MPI, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/transports/mpi/call.h"
#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/mpi/wire.h"
#include "leat/csp/channel.h"

namespace leat::comm::mpi {

class Engine;

/// Only MPI's thread calls the functions after the first group.
class Group {
 public:
  /// `members` are ranks of MPI's world; this process is members[rank].
  Group(Engine& engine, std::uint64_t context, std::vector<int> members, int rank);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() = default;
  [[nodiscard]] std::uint64_t context() const noexcept { return context_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }
  [[nodiscard]] int world_rank(int rank) const noexcept {
    return members_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::span<const int> members() const noexcept { return members_; }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }

  [[nodiscard]] Wire& wire() const noexcept;
  void begin(Operation& operation);
  /// A header of this context from a rank of MPI's world, if it is a member.
  void received(int from_world, const Header& header, const std::byte* data);
  void post(int to, std::span<const Notice> notices);
  void listen(const Channel<Notice>& notices);
  [[nodiscard]] bool is_listening() const noexcept { return listener_.has_value(); }
  /// This rank leaves: tells the others.
  void leave();
  [[nodiscard]] bool has_left(int rank) const noexcept {
    return left_[static_cast<std::size_t>(rank)] != 0;
  }
  /// Whether all ranks have left, and nothing is under way.
  [[nodiscard]] bool is_over() const noexcept;
  /// The ranks of MPI's world that an operation waits for: see Call::missing().
  [[nodiscard]] std::vector<int> missing(const Operation& operation);
  /// `call` has ended, and is used for another collective.
  void recycle(const Call& call);

 private:
  struct Sending {
    Operation* operation = nullptr;
    bool is_sent = false;
    bool is_taken = false;
  };
  using Calls = std::list<Call>;

  [[nodiscard]] int rank_of(int world_rank) const noexcept;
  [[nodiscard]] Calls::iterator find_call(std::uint64_t number) noexcept;
  [[nodiscard]] Call& call(std::uint64_t number);
  void begin_send(Operation& operation);
  void end_send(std::uint64_t name, bool Sending::*what);
  bool match(int from, std::uint64_t key);
  void end_recv(Operation& recv, std::uint64_t send, bool read_memory);
  void hand_notices();
  void left(int rank);
  /// `other`: what the peer called; null: it has left.
  [[noreturn]] void fail_message(const Operation& operation, const Signature* other);

  Engine& engine_;
  const std::uint64_t context_;
  const std::vector<int> members_;
  const int rank_;

  Calls calls_;
  Calls unused_;
  std::vector<Sending> sends_;
  std::vector<Operation*> recvs_;  // not matched
  std::list<KeptMessage> offers_;  // kSend, not matched
  std::list<KeptMessage> unused_offers_;
  int receiving_ = 0;  // matched, larger data comes
  std::optional<Channel<Notice>> listener_;
  std::vector<Notice> unheard_;
  std::vector<char> left_;
};

}  // namespace leat::comm::mpi
