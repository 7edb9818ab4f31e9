// One communicator on this rank: its ranks, its collectives and its sends and receives, as MPI's
// thread sees them.
//
// Always true:
//  - What other ranks say of an operation that this one has not begun waits here, in order.
//  - Sends and receives of one rank and key are matched in the order in which they were begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/transports/mpi/call.h"
#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/mpi/wire.h"
#include "leat/csp/channel.h"

namespace leat::comm::mpi {

class Engine;

/// Made by std::make_shared. After the first group of functions all are MPI's thread's.
class Group final : public TransferOwner, public std::enable_shared_from_this<Group> {
 public:
  /// Of `members`, ranks of MPI's world; this process is members[rank].
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
  /// Whether the engine knows it.
  bool is_known = false;
  void begin(Operation& operation);
  /// A header of this context from a rank of MPI's world.
  void received(int from_world, const Header& header, const std::byte* data);
  void transferred(const Transfer& transfer) override;
  /// Gives notices of this rank to itself.
  void deliver(std::span<const Notice> notices);
  void listen(const Channel<Notice>& notices);
  [[nodiscard]] bool is_listening() const noexcept { return listener_.has_value(); }
  /// This rank leaves: tells the others.
  void leave();
  /// A rank of MPI's world leaves, if it is a member.
  void world_rank_left(int world_rank);
  [[nodiscard]] bool has_left(int rank) const noexcept {
    return left_[static_cast<std::size_t>(rank)] != 0;
  }
  /// Whether all ranks have left, and nothing is under way.
  [[nodiscard]] bool is_over() const noexcept {
    return left_count_ == size() && calls_.empty() && sends_.empty() && receives_.empty() &&
           recvs_.empty();
  }
  /// The ranks of MPI's world that an operation that is late waits for: those that have not called
  /// it, or the one that is most likely the cause.
  [[nodiscard]] std::vector<int> missing(const Operation& operation) const;

  // For its operations.
  void recycle(Call& call);
  [[noreturn]] void fail_collective(const Call& call, const Operation& operation, int blamed);

 private:
  enum Stage { kSendData, kRecvData };
  // A send that began, here (to this rank itself) or at another rank, and waits for its recv.
  struct Offer {
    int from = 0;
    Header header;
    std::vector<std::byte> data;
    Operation* own = nullptr;
  };
  struct Sending {
    Operation* operation = nullptr;
    std::uint64_t id = 0;
    bool is_sent = false;
    bool is_taken = false;
  };
  struct Receiving {
    Operation* operation = nullptr;
    std::uint64_t id = 0;       // here
    std::uint64_t send_id = 0;  // at the sender
  };

  [[nodiscard]] int rank_of(int world_rank) const noexcept;
  [[nodiscard]] Call* find_call(std::uint64_t number) const noexcept;
  [[nodiscard]] Call& call(std::uint64_t number);
  void begin_send(Operation& operation);
  void begin_recv(Operation& operation);
  void offered(int from, const Header& header, const std::byte* data, Operation* own);
  void match(Operation& recv, int from, const Header& header, const std::byte* data,
             Operation* own);
  void taken(std::uint64_t id);
  void tell_taken(int from, std::uint64_t send_id);
  void finish_send(std::size_t at);
  void left(int rank);
  /// `other`: what the peer called; null: it has left.
  [[noreturn]] void fail_message(const Operation& operation, const Signature* other);

  Engine& engine_;
  const std::uint64_t context_;
  const std::vector<int> members_;
  const int rank_;

  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<std::unique_ptr<Call>> unused_;
  std::uint64_t last_id_ = 0;
  std::vector<Sending> sends_;
  std::vector<Receiving> receives_;  // matched, larger data comes
  std::vector<Operation*> recvs_;    // not matched
  std::list<Offer> offers_;          // not matched
  std::list<Offer> unused_offers_;
  std::optional<Channel<Notice>> listener_;
  std::vector<Notice> unheard_;
  std::vector<char> left_;
  int left_count_ = 0;
};

}  // namespace leat::comm::mpi
