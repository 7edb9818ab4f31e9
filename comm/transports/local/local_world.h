// The world of "local": where the operations of all ranks meet.
//
// The last rank to come runs the operation. If it is small, or nobody waits, that rank does all of
// the work. Otherwise ranks that wait help: everybody claims blocks of elements from a counter, and
// the last to find none left finishes the operations. With a link model the wire's fiber runs the
// operation, at its end.
//
// Always true:
//  - An operation whose meeting is complete is taken from World and put into running_ under one
//    hold of lock_. So stop(), which waits for running_ to be empty, has seen the last use of
//    memory.
//  - The lock is never held while memory is worked on, an operation is finished, or a channel is
//    used. The text of a mismatch is made under it, once.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "leat/comm/transports/local/group.h"
#include "leat/comm/transports/local/wire.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/bell.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace leat::comm {

/// What the ends of "local" call. Thread-safe.
class LocalWorld final : public World {
 public:
  LocalWorld(int ranks, const OpenOptions& options);
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;
  ~LocalWorld() override;

  /// The communicator `context`, of these ranks of the world; made by the first that asks. It lives
  /// until close() was called for each of its ranks.
  [[nodiscard]] std::shared_ptr<Group> open_group(std::uint64_t context,
                                                  std::span<const int> members);
  void close(Group& group) noexcept;

  // As Transport's functions, for rank `rank` of `group`.
  void begin(Group& group, int rank, Operation& operation) noexcept;
  void help(const Group& group) noexcept;
  void post(const std::shared_ptr<Group>& group, int from, int to, std::span<const Notice> notices);
  void reserve(Group& group, std::size_t operations);
  void listen(Group& group, int rank, Channel<Notice>&& notices);
  void leave(Group& group, int rank) noexcept;

 private:
  void stop(const Failure& failure, bool tell) noexcept override;
  [[nodiscard]] Missing missing(const Operation& operation) override;

  [[nodiscard]] Meeting* come(Group& group, int rank, Operation& operation,
                              std::optional<Failure>& wrong) LEAT_REQUIRES(lock_);
  [[nodiscard]] Failure mismatch_in(const Meeting& meeting, int blamed) const LEAT_REQUIRES(lock_);
  [[nodiscard]] Meeting* take(Meeting& meeting) noexcept LEAT_REQUIRES(lock_);
  void run(Meeting& meeting) noexcept;
  void work(Meeting& meeting) noexcept;

  void flush(Group::Mailbox& box) noexcept LEAT_REQUIRES(lock_);
  void wake_wire() noexcept;
  void run_wire();

  const std::uint64_t helpers_;  // of one operation, at most
  SpinLock lock_;
  bool stopped_ LEAT_GUARDED_BY(lock_) = false;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups_ LEAT_GUARDED_BY(lock_);  // by context
  std::list<Meeting> free_ LEAT_GUARDED_BY(lock_);
  std::list<Meeting> running_ LEAT_GUARDED_BY(lock_);
  std::list<Posted> free_posted_ LEAT_GUARDED_BY(lock_);
  std::optional<Wire> wire_ LEAT_GUARDED_BY(lock_);  // with a link model
  TimePoint wire_sleeps_until_ LEAT_GUARDED_BY(lock_) = TimePoint::min();
  std::atomic<int> shared_{0};  // meetings with blocks for helpers
  Bell bell_{"comm wire"};
  std::optional<TaskGroup> fiber_;
};

}  // namespace leat::comm
