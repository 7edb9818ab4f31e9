// The link model at work: when each operation ends, and each notice arrives.
//
// A message takes two lines, its sender's outgoing and its receiver's incoming one. All collectives
// share one more, the link. An operation that all its ranks have called starts when its lines are
// free; the first to be complete starts first.
//
// Times are the model's. In real time the wire's owner may look late. What should have happened
// meanwhile then happens in its order, at its times.
//
// Not thread-safe: guarded by LocalWorld::lock_. Allocates in its constructor only.
#pragma once

#include <list>
#include <utility>
#include <vector>

#include "leat/comm/link_model.h"
#include "leat/comm/transports/local/group.h"

namespace leat::comm {

/// The lines of `ranks` ranks, and what is on them.
class Wire {
 public:
  Wire(const LinkModel& model, int ranks)
      : model_(model), free_at_(2 * static_cast<std::size_t>(ranks) + 1, TimePoint::min()) {}

  /// Takes a meeting from the list `from`; all of its operations have come. `now` never goes back
  /// from call to call, of any function.
  void add(std::list<Meeting>& from, Meeting& meeting, TimePoint now) noexcept;
  /// Moves an operation that has ended by `now`, the earliest first, to the end of `to`, and
  /// returns it; null if there is none.
  [[nodiscard]] Meeting* pop(TimePoint now, std::list<Meeting>& to) noexcept;
  /// Takes the first notice of `from`, which arrives in delta.
  void post(std::list<Posted>& from, TimePoint now) noexcept;
  /// The same for the notice that was posted first; returns whether it has arrived.
  [[nodiscard]] bool pop_notice(TimePoint now, std::list<Posted>& to) noexcept;
  /// When something ends or arrives next; TimePoint::max() if nothing is on the way.
  [[nodiscard]] TimePoint next() const noexcept;

 private:
  [[nodiscard]] Duration time_of(const Meeting& meeting) const noexcept;
  [[nodiscard]] std::pair<TimePoint&, TimePoint&> lines_of(const Meeting& meeting) noexcept;
  void start(TimePoint at) noexcept;
  void advance(TimePoint now) noexcept;

  const LinkModel model_;
  std::vector<TimePoint> free_at_;  // by line: two for each rank of the world, then the link
  TimePoint started_at_ = TimePoint::min();  // what can start by then has
  std::list<Meeting> waiting_;               // for their lines
  std::list<Meeting> running_;               // by their ends
  std::list<Posted> notices_;
};

}  // namespace leat::comm
