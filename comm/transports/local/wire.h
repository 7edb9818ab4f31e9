// The link model at work: when each operation ends, and each notice arrives.
//
// Times are those of the model. In real time its owner may look late: then what should have
// happened meanwhile happens in its order, at its times.
//
// Not thread-safe: guarded by LocalWorld::lock_. Allocates in its constructor only.
#pragma once

#include <vector>

#include "leat/comm/link_model.h"
#include "leat/comm/transports/local/group.h"

namespace leat::comm {

/// The link, the lines of `ranks` ranks, and what is on them.
class Wire {
 public:
  Wire(const LinkModel& model, int ranks);

  /// Puts an operation that all ranks have called on the link, or on its lines. `now` is not before
  /// that of an earlier call of any function.
  void add(Meeting& meeting, TimePoint now) noexcept;
  /// A notice, which arrives in delta.
  void post(Posted& notice, TimePoint now) noexcept;
  /// Removes and returns an operation that has ended by `now`, the earliest first; null if there is
  /// none.
  [[nodiscard]] Meeting* pop(TimePoint now) noexcept;
  /// The same for notices.
  [[nodiscard]] Posted* pop_notice(TimePoint now) noexcept;
  /// When something ends or arrives next; TimePoint::max() if nothing is on the way.
  [[nodiscard]] TimePoint next() const noexcept;

 private:
  [[nodiscard]] Duration time_of(const Meeting& meeting) const noexcept;
  void insert(Meeting& meeting) noexcept;
  void start_sends(TimePoint at) noexcept;
  void advance(TimePoint now) noexcept;

  const LinkModel model_;
  TimePoint link_is_free_ = TimePoint::min();
  std::vector<bool> out_;  // which lines are in use, by rank in the world
  std::vector<bool> in_;
  Meeting* ending_ = nullptr;  // what runs, by its end
  Fifo<Meeting> waiting_;      // sends whose lines are not free
  Fifo<Posted> notices_;
};

}  // namespace leat::comm
