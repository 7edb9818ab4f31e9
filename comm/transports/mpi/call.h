// One collective on this rank: a state machine that MPI's thread drives.
//
// Always true:
//  - It ends once it has begun here, every other rank's kCall is here and was equal, and no
//    transfer of it is under way.
//  - Data travels to or from a rank only after both ranks know that they call the same.
//  - Memory that is received into is no more being sent: a block of `out`, which may be `in`, is
//    received only after the same block of `in` was sent.
//
// A sum of more than kInlineBytes goes in blocks, so that a rank receives, sums and sends at once,
// with kWindow blocks of each stream under way:
//
//   rank p: block of chunk o ──► give[p→o] ──► scratch of rank o ─┐
//   rank o: its own block ───────────────────────────────────────┴► sum, in `out` ──► back[o→p]
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/mpi/wire.h"
#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/reduce.h"

namespace leat::comm::mpi {

class Group;

/// Reused by its group. Every function is called by MPI's thread; all but the queries may throw
/// what ends the thread's work: Error, Engine's Stopped.
class Call final : public TransferOwner {
 public:
  explicit Call(Group& group);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  void reset(std::uint64_t number) noexcept;
  /// This rank begins it.
  void begin(Operation& operation);
  /// Rank `from` has begun it.
  void received(int from, const Header& header, const std::byte* data);
  void transferred(const Transfer& transfer) override;
  /// Rank `from` has left: a mismatch if this call waits for it.
  void check_left(int from);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool has_begun() const noexcept { return operation_ != nullptr; }
  /// Transfers to and from a rank that are under way.
  [[nodiscard]] int transfers(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)].transfers;
  }
  /// What another rank has called; null: nothing yet.
  [[nodiscard]] const Signature* signature_of(int rank) const noexcept {
    const Peer& one = peers_[static_cast<std::size_t>(rank)];
    return one.is_here ? &one.header.signature : nullptr;
  }

 private:
  // Blocks of a stream to or from one rank, the first `done` of which have ended.
  struct Stream {
    std::uint64_t started = 0;
    std::uint64_t done = 0;
    std::uint32_t others = 0;  // which of those after `done` have ended
    void ended(std::uint64_t block) noexcept {
      others |= 1U << (block - done);
      for (; (others & 1U) != 0; others >>= 1U) ++done;
    }
  };
  enum Stage { kWhole, kGive, kTake, kBack, kResult };
  struct Peer {
    bool is_here = false;
    Header header;
    std::vector<std::byte> data;
    int transfers = 0;
    Stream give;    // this rank's part of the peer's chunk, to the peer
    Stream take;    // the peer's part of this rank's chunk
    Stream back;    // the sum of this rank's chunk, to the peer
    Stream result;  // the sum of the peer's chunk
  };
  static constexpr std::uint64_t kWindow = 2;

  [[nodiscard]] Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool combines() const noexcept {
    return signature_.kind == OperationKind::kAllReduce ||
           signature_.kind == OperationKind::kReduceScatter;
  }
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> chunk(int rank) const noexcept;
  [[nodiscard]] std::uint64_t chunk_bytes(int rank) const noexcept;
  [[nodiscard]] const std::byte* input() const noexcept;
  [[nodiscard]] std::byte* output() const noexcept;
  [[nodiscard]] std::uint64_t blocks(int rank) const noexcept;
  [[nodiscard]] std::byte* scratch(int rank, std::uint64_t block) const noexcept;
  /// Where the block is in the whole vector: its first byte, and its bytes.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> block_at(
      int rank, std::uint64_t block) const noexcept;

  void announce();
  void prepare();
  void agree(int rank);
  void start(int rank, Stage stage, std::uint64_t block, bool sends, std::byte* memory,
             std::uint64_t bytes);
  void start_whole(int rank, bool sends, std::byte* memory, std::uint64_t bytes);
  void give(int rank);
  void take(int rank);
  void back(int rank);
  void result(int rank);
  void sum_blocks();
  void advance();
  void finish_small();
  void weigh();

  Group& group_;
  std::vector<Peer> peers_;  // by rank; this rank's own is not used
  std::vector<Input> inputs_;

  std::uint64_t number_ = 0;
  Operation* operation_ = nullptr;  // null: this rank has not begun it
  Signature signature_;
  int here_ = 0;
  bool is_small_ = true;
  int tag_ = 0;
  int in_flight_ = 0;  // transfers, of all peers

  std::uint64_t block_ = 0;   // elements
  std::uint64_t window_ = 0;  // blocks of a stream under way
  std::uint64_t summed_ = 0;  // blocks of this rank's chunk
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace leat::comm::mpi
