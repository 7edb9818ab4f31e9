// One collective on this rank: a state machine that MPI's thread drives.
//
// Always true:
//  - It ends once it has begun on all ranks, all of them called the same, and no transfer of it is
//    under way.
//  - Data travels to or from a rank only after both ranks know that they call the same.
//  - Memory that is received into is no more being sent: a block of `out`, which may be `in`, is
//    received only after the same block of `in` was sent.
//
// Each rank owns a part of the vector, in blocks. A sum combines the blocks of the own part, as
// they arrive; all but a reduce_scatter then send them to the others. A rank receives, sums and
// sends at once, with window_ blocks of each stream under way:
//
//   rank p: block of o's part ──► give[p→o] ──► scratch of rank o ─┐
//   rank o: its own block ────────────────────────────────────────┴► sum, in `out` ──► back[o→p]
//
// Data of at most kInlineBytes is one block, and comes with the header. In an all_reduce of that
// size, every rank owns the whole vector.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
class Call {
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
  /// Rank `from` has left: a mismatch if this call waits for it.
  void check_left(int from);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool has_begun() const noexcept { return operation_ != nullptr; }
  /// The ranks of MPI's world that have not called it; if all have: those whose data is under way.
  [[nodiscard]] std::vector<int> missing() const;

 private:
  // Blocks of a part to or from one rank. The first `done` have ended.
  struct Stream {
    std::uint64_t started = 0;
    std::uint64_t done = 0;
    std::uint32_t others = 0;  // which of those after `done` have ended
    void ended(std::uint64_t block) noexcept {
      others |= 1U << (block - done);
      for (; (others & 1U) != 0; others >>= 1U) ++done;
    }
  };
  enum Stage : std::size_t {
    kGive,    // this rank's input of the peer's part, to the peer
    kResult,  // the peer's part, combined
    kTake,    // the peer's input of this rank's part
    kBack,    // this rank's part, combined, to the peer
    kStages,
  };
  // Of the whole vector.
  struct Bytes {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    [[nodiscard]] std::uint64_t size() const noexcept { return second - first; }
  };
  struct Peer {
    bool is_here = false;
    Header header;
    std::vector<std::byte> data;
    Bytes part;
    std::uint64_t blocks = 0;  // of the part
    std::array<Stream, kStages> streams;
    [[nodiscard]] bool is_busy() const noexcept {
      return std::any_of(streams.begin(), streams.end(),
                         [](const Stream& one) { return one.started != one.done; });
    }
  };
  [[nodiscard]] Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Peer& peer(int rank) const noexcept {
    return peers_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const std::byte* input() const noexcept {
    return static_cast<const std::byte*>(operation_->in);
  }
  [[nodiscard]] std::byte* output() const noexcept {
    return static_cast<std::byte*>(operation_->out);
  }
  [[nodiscard]] Bytes block(int rank, std::uint64_t at) const noexcept;
  [[nodiscard]] std::byte* scratch(int rank, std::uint64_t block) noexcept;

  void lay_out();
  void announce();
  void agree(int rank);
  [[nodiscard]] std::uint64_t startable(int rank, Stage stage) const noexcept;
  void go_on(int rank);
  static void block_ended(const Transfer& block);
  void sum_blocks();
  void advance();
  [[noreturn]] void fail(int blamed);

  Group& group_;
  std::vector<Peer> peers_;  // by rank; of this rank's own, what it told the others
  std::vector<Input> inputs_;

  std::uint64_t number_ = 0;
  Operation* operation_ = nullptr;  // null: this rank has not begun it
  std::uint64_t samples_ = 0;       // of those that are here

  bool is_small_ = true;  // data comes with the headers
  bool sums_ = false;
  bool gathers_ = false;            // parts go to all ranks
  std::uint64_t block_ = 1;         // bytes
  std::uint64_t window_ = 1;        // blocks of a stream under way
  std::uint64_t summed_ = 0;        // blocks of this rank's part that have their values
  std::vector<std::byte> scratch_;  // each rank's blocks that are to be summed
};

}  // namespace leat::comm::mpi
