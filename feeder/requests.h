// What the consumers want: the way back from them to the sampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "leat/csp/channel.h"

namespace leat::feeder {

/// An epoch that a consumer wants from its beginning. Later requests have larger generations; what
/// was staged for an earlier one is thrown away.
struct Request {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  /// The epochs, among those resumed, of which what comes next is the rest and not the whole.
  std::vector<std::uint64_t> rests = {};
};

/// Thread-safe; nobody waits here but the sampler, on `news`.
class Requests {
 public:
  /// `shared`: the ranks are in one epoch together (dynamic sharing). `resumed`: the epochs that a
  /// state says something of.
  Requests(std::size_t ranks, bool shared, std::vector<std::uint64_t> resumed)
      : shared_(shared),
        latest_(shared ? 1 : ranks),
        untaken_(latest_.size(), false),
        not_begun_(latest_.size(), std::move(resumed)),
        news(1, "requests") {}

  /// Rank `rank`, whose request was `before` so far, wants `epoch` from its beginning. Of ranks
  /// that share, those who come later join the request. Otherwise the first that asks for anything
  /// asks for all, who will want the same and be read for in turns.
  [[nodiscard]] Request ask(std::size_t rank, std::uint64_t epoch, std::uint64_t before) {
    const std::size_t i = index(rank);
    Request request;
    {
      const std::scoped_lock lock(mutex_);
      Request& latest = latest_[i];
      if (latest.generation > before && latest.epoch == epoch) return latest;
      latest = {.epoch = epoch, .generation = latest.generation + 1, .rests = not_begun_[i]};
      untaken_[i] = true;
      request = latest;
      for (std::size_t other = 0; other < latest_.size(); ++other) {
        if (latest_[other].generation != 0) continue;
        latest_[other] = {.epoch = epoch, .generation = 1, .rests = not_begun_[other]};
        untaken_[other] = true;
      }
    }
    static_cast<void>(news.try_send(true));  // full: the sampler has not looked yet
    return request;
  }
  /// The consumer of `rank` begins `epoch`, asked for or as the one that follows.
  void begun(std::size_t rank, std::uint64_t epoch) {
    const std::scoped_lock lock(mutex_);
    std::erase(not_begun_[index(rank)], epoch);
  }
  /// The latest request of `rank` (of ranks that share: of 0), if it was not taken yet.
  [[nodiscard]] std::optional<Request> take(std::size_t rank) {
    const std::scoped_lock lock(mutex_);
    if (!untaken_[rank]) return std::nullopt;
    untaken_[rank] = false;
    return latest_[rank];
  }
  /// How many have requests of their own.
  [[nodiscard]] std::size_t size() const noexcept { return latest_.size(); }

 private:
  [[nodiscard]] std::size_t index(std::size_t rank) const noexcept { return shared_ ? 0 : rank; }

  const bool shared_;
  std::mutex mutex_;  // never held across a park
  std::vector<Request> latest_;
  std::vector<bool> untaken_;
  std::vector<std::vector<std::uint64_t>> not_begun_;

 public:
  Channel<bool> news;  // there is something to take; capacity 1
};

}  // namespace leat::feeder
