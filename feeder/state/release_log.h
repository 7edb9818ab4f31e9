// Which batches were released: what a state is made of.
//
// A pass is one way of a consumer through an epoch. Always true: the log has of each rank the pass
// that it is in, those that it still has leases of, those over an epoch that another rank has still
// to leave, and all that are younger than one of these. So it stays small, and epochs that all have
// left are forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/state.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {

struct BatchId;

/// Names a pass.
enum class PassId : std::uint64_t { kNone = 0 };

/// Thread-safe. Allocates nothing per batch as long as batches are released in order or nearly so.
class ReleaseLog {
 public:
  /// Of the ranks `head.rank` .. + `head.ranks` of `head.world_size`; `shared`: they share the
  /// batches of one log (dynamic sharing). `head.epochs` is what was resumed from.
  ReleaseLog(const BatchPlan& plan, State head, bool shared);

  /// Local rank `rank` begins a pass over `epoch`, or, after a resume, over its rest. Ranks that
  /// share and begin the same epoch of the same request are in one pass.
  [[nodiscard]] PassId begin(std::size_t rank, std::uint64_t generation, std::uint64_t epoch,
                             bool rest);
  void leased(std::size_t rank, PassId pass) noexcept;
  /// The lease is over; `done`: the batch was released, not abandoned.
  void ended(std::size_t rank, PassId pass, const BatchId& batch, bool done) noexcept;

  /// What is left of `epoch` after a resume; null: all of it. Valid for the log's life.
  [[nodiscard]] const EpochReleases* resumed(std::uint64_t epoch) const noexcept;
  [[nodiscard]] State state() const;

 private:
  struct Pass {
    PassId id = PassId::kNone;
    std::uint64_t generation = 0;
    std::uint64_t epoch = 0;
    bool rest = false;  // of a resumed epoch
    IntervalSet released;
    std::vector<std::pair<std::uint64_t, Carry>> carries;  // of batches released; packed
    std::size_t leases = 0;

    void note_carry(const BatchId& batch);
    [[nodiscard]] std::optional<Carry> carry() const;
  };
  [[nodiscard]] std::vector<Pass>& passes(std::size_t rank) noexcept {
    return passes_[shared_ ? 0 : rank];
  }
  /// Of the world, so that the state is to be merged.
  [[nodiscard]] bool is_part() const noexcept { return head_.ranks < head_.world_size; }
  // All passes as they are, to look things up in.
  struct View {
    std::vector<const Pass*> current;              // of each rank; null: it has begun nothing
    std::vector<std::vector<const Pass*>> sorted;  // of each of passes_: by epoch, the latest last
  };
  [[nodiscard]] View view() const;
  [[nodiscard]] static std::span<const Pass* const> over(const std::vector<const Pass*>& sorted,
                                                         std::uint64_t epoch) noexcept;
  [[nodiscard]] bool is_over(const View& view, const Pass& pass) const noexcept;
  void forget_what_is_over();
  [[nodiscard]] bool has_left(const View& view, std::size_t rank,
                              std::uint64_t epoch) const noexcept;
  [[nodiscard]] static Pass* find(std::vector<Pass>& passes, PassId id) noexcept;
  [[nodiscard]] EpochReleases releases(const View& view, std::uint64_t epoch) const;
  [[nodiscard]] std::optional<Carry> carry_of(const View& view, std::uint64_t epoch) const;

  const BatchPlan plan_;
  const State head_;
  const bool shared_;

  mutable std::mutex mutex_;  // never held across a park
  std::uint64_t last_id_ = 0;
  std::vector<std::vector<Pass>> passes_;  // of each rank, in the order of their beginning
  std::vector<PassId> current_;            // of each rank; kNone: it has begun nothing
  std::vector<bool> unseen_;               // of head_.epochs: no rank has begun it or a later one
};

}  // namespace leat::feeder
