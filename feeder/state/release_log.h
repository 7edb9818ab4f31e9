// The log of released batches. State objects are made from it.
//
// A pass is one traversal of an epoch by a consumer. The log keeps for each rank:
//  - its current pass;
//  - passes with leases that are still held, or with receipts;
//  - passes over an epoch that another rank has not left yet;
//  - every pass that is younger than one of these.
// So the log stays small: once all ranks have left an epoch, its passes are forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/receipt.h"
#include "leat/feeder/state.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {

struct BatchId;

/// The number of a pass.
enum class PassId : std::uint64_t { kNone = 0 };

/// The released batches of the ranks of one prefetcher. Thread-safe. Does not allocate for a batch
/// if batches are released nearly in order.
class ReleaseLog {
 public:
  /// For the ranks `head.rank` .. `head.rank + head.ranks - 1` of `head.world_size`. `shared`: the
  /// ranks take batches from one common epoch (dynamic sharing). `head.epochs` has the releases
  /// from before the resume.
  ReleaseLog(const BatchPlan& plan, State head, bool shared);

  /// Local rank `rank` begins a pass over `epoch`, or, if `rest`, over the part of it that was left
  /// at the resume. With dynamic sharing, ranks that begin the same epoch of the same request share
  /// one pass.
  [[nodiscard]] PassId begin(std::size_t rank, std::uint64_t generation, std::uint64_t epoch,
                             bool rest);
  /// A batch of the pass was leased.
  void leased(std::size_t rank, PassId pass) noexcept;
  /// A lease of the pass has ended, or the receipt that it gave. `done`: the batch counts.
  void ended(std::size_t rank, PassId pass, const BatchId& batch, bool done) noexcept;

  /// Returns what was released of `epoch` before the resume; null: nothing. Valid as long as the
  /// log.
  [[nodiscard]] const EpochReleases* resumed(std::uint64_t epoch) const noexcept;
  /// Returns the current state.
  [[nodiscard]] State state() const;
  /// Returns the state as if `receipts` were committed. Throws std::invalid_argument for an empty
  /// receipt or one of another log.
  [[nodiscard]] State state(std::span<const Receipt* const> receipts) const;

 private:
  struct Pass {
    PassId id = PassId::kNone;
    std::uint64_t generation = 0;
    std::uint64_t epoch = 0;
    bool rest = false;  // the rest of a resumed epoch
    IntervalSet released;
    std::vector<std::pair<std::uint64_t, Carry>> carries;  // by released batch (packing)
    std::size_t open = 0;  // leases and receipts that have not ended

    void count(const BatchId& batch, bool is_packed);
    void note_carry(const BatchId& batch);
    [[nodiscard]] std::optional<Carry> carry() const;
  };
  using Passes = std::vector<std::vector<Pass>>;  // by rank, oldest first
  /// Where the passes of a rank are.
  [[nodiscard]] std::size_t list_of(std::size_t rank) const noexcept { return shared_ ? 0 : rank; }
  [[nodiscard]] std::vector<Pass>& passes(std::size_t rank) noexcept {
    return passes_[list_of(rank)];
  }
  [[nodiscard]] bool is_packed() const noexcept { return head_.elements > 0; }
  /// Returns whether the state covers only some ranks of the world, and has to be merged.
  [[nodiscard]] bool is_part() const noexcept { return head_.ranks < head_.world_size; }
  // An index of the passes.
  struct View {
    std::vector<const Pass*> current;              // by rank; null: it has begun no pass
    std::vector<std::vector<const Pass*>> sorted;  // each list by epoch, then by age
  };
  [[nodiscard]] View view(const Passes& passes) const;
  [[nodiscard]] static std::span<const Pass* const> over(const std::vector<const Pass*>& sorted,
                                                         std::uint64_t epoch) noexcept;
  [[nodiscard]] bool is_over(const View& view, const Pass& pass) const noexcept;
  void forget_what_is_over();
  [[nodiscard]] bool has_left(const View& view, std::size_t rank,
                              std::uint64_t epoch) const noexcept;
  [[nodiscard]] static Pass* find(std::vector<Pass>& passes, PassId id) noexcept;
  [[nodiscard]] State state_of(const Passes& passes) const;
  [[nodiscard]] EpochReleases releases(const View& view, std::uint64_t epoch) const;
  [[nodiscard]] std::optional<Carry> carry_of(const View& view, std::uint64_t epoch) const;

  const BatchPlan plan_;
  const State head_;
  const bool shared_;

  mutable std::mutex mutex_;  // guards all members below; never held across a park
  std::uint64_t last_id_ = 0;
  Passes passes_;
  std::vector<PassId> current_;  // by rank; kNone: it has begun no pass
  std::vector<bool> unseen_;     // by head_.epochs: no rank has begun it or a later one
};

}  // namespace leat::feeder
