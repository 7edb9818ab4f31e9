// Requests for epochs, from the consumers to the sampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/bell.h"
#include "leat/feeder/batch_source.h"

namespace leat::feeder {

/// A request for an epoch from its beginning.
struct Request {
  std::uint64_t epoch = 0;
  /// Later requests have larger generations. Batches staged for an earlier one are discarded.
  std::uint64_t generation = 0;
  /// The resumed epochs that this consumer has not begun: their next pass has only the rest.
  std::vector<std::uint64_t> rests = {};
  /// With dynamic sharing: the epoch that has to end first. Only batches that were read ahead for
  /// epochs that no rank has begun are discarded.
  std::optional<std::uint64_t> after = std::nullopt;
  /// Later epochs are not read yet.
  std::uint64_t last = ~std::uint64_t{0};
};

/// A batch that the caller has drawn, or the end of the epoch (Order::kDrawn).
struct Draw {
  std::uint64_t generation = 0;  // the request's that it serves
  DrawnKeys keys;
  bool ends_epoch = false;
};

/// Thread-safe. Does not block; the sampler waits on `news`.
class Requests {
 public:
  /// `resumed`: the epochs in the state that the run was resumed from. `across_epochs`: an epoch is
  /// read as soon as the one before it has been; otherwise, once it is asked for.
  Requests(std::size_t ranks, const std::vector<std::uint64_t>& resumed, bool across_epochs)
      : across_epochs_(across_epochs),
        latest_(ranks),
        untaken_(ranks, false),
        not_begun_(ranks, resumed) {}

  /// Returns whether the epoch after a rank's current one is read without a request for it.
  [[nodiscard]] bool across_epochs() const noexcept { return across_epochs_; }

  /// Rank `rank`, whose latest request has the generation `before`, wants `epoch` from its
  /// beginning. Across epochs, the first request is also made for all other ranks, which will want
  /// the same epoch.
  [[nodiscard]] Request ask(std::size_t rank, std::uint64_t epoch, std::uint64_t before) {
    Request request;
    {
      const std::scoped_lock lock(mutex_);
      Request& latest = latest_[rank];
      if (latest.generation > before && latest.epoch == epoch) return latest;
      latest = {.epoch = epoch, .generation = latest.generation + 1, .rests = not_begun_[rank]};
      if (!across_epochs_) latest.last = epoch;
      untaken_[rank] = true;
      request = latest;
      for (std::size_t other = 0; across_epochs_ && other < latest_.size(); ++other) {
        if (latest_[other].generation != 0) continue;
        latest_[other] = {.epoch = epoch, .generation = 1, .rests = not_begun_[other]};
        untaken_[other] = true;
      }
    }
    news.ring();
    return request;
  }
  /// Notes that the consumer of `rank` begins `epoch`, by a request or because it comes next.
  void begun(std::size_t rank, std::uint64_t epoch) {
    const std::scoped_lock lock(mutex_);
    std::erase(not_begun_[rank], epoch);
  }
  /// With dynamic sharing: notes that a rank begins `epoch`. Has no effect if a rank has begun this
  /// epoch or a later one. If `epoch` follows the farthest epoch so far, it needs no request,
  /// except to be read at all.
  void ask_shared(std::uint64_t epoch) {
    {
      const std::scoped_lock lock(mutex_);
      if (shared_.has_value() && epoch <= *shared_) return;
      const bool follows = shared_.has_value() && epoch == *shared_ + 1;
      const std::optional<std::uint64_t> after = std::exchange(shared_, epoch);
      if (follows && across_epochs_) return;
      if (!follows) {
        latest_[0] = {.epoch = epoch, .generation = 1, .rests = not_begun_[0], .after = after};
      }
      if (!across_epochs_) latest_[0].last = epoch;
      untaken_[0] = true;
    }
    news.ring();
  }
  /// Takes the latest request of `rank` (with dynamic sharing: of rank 0). Empty if it was taken.
  [[nodiscard]] std::optional<Request> take(std::size_t rank) {
    const std::scoped_lock lock(mutex_);
    if (!untaken_[rank]) return std::nullopt;
    untaken_[rank] = false;
    return latest_[rank];
  }
  /// Notes what the caller of the only rank draws, in its order.
  void draw(Draw draw) {
    {
      const std::scoped_lock lock(mutex_);
      draws_.push_back(std::move(draw));
    }
    news.ring();
  }
  /// Returns whether there is a draw for that generation. Drops those for earlier ones.
  [[nodiscard]] bool has_draw(std::uint64_t generation) {
    const std::scoped_lock lock(mutex_);
    while (!draws_.empty() && draws_.front().generation < generation) draws_.pop_front();
    return !draws_.empty() && draws_.front().generation == generation;
  }
  /// Takes it.
  [[nodiscard]] Draw take_draw() {
    const std::scoped_lock lock(mutex_);
    Draw first = std::move(draws_.front());
    draws_.pop_front();
    return first;
  }
  [[nodiscard]] std::size_t ranks() const noexcept { return latest_.size(); }

  Bell news{"requests"};  // there is a request or a draw to take

 private:
  const bool across_epochs_;
  std::mutex mutex_;  // never held across a park
  std::vector<Request> latest_;
  std::vector<bool> untaken_;
  std::vector<std::vector<std::uint64_t>> not_begun_;
  std::deque<Draw> draws_;
  std::optional<std::uint64_t> shared_;  // the farthest epoch that any rank has begun
};

}  // namespace leat::feeder
