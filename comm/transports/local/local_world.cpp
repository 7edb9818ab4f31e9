#include "leat/comm/transports/local/local_world.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/assert.h"
#include "leat/csp/wait/cpu_count.h"

namespace leat::comm {
namespace {

bool is_message(const Operation& operation) noexcept { return operation.peer >= 0; }

}  // namespace

LocalWorld::LocalWorld(int ranks, const OpenOptions& options)
    : World(options, ranks, 0, ranks),
      helpers_(static_cast<std::uint64_t>(usable_cpus()) - 1),
      is_modelled_(options.link.enabled) {
  if (!is_modelled_) return;
  wire_.emplace(options.link, ranks);
  fiber_.emplace(scheduler());
  fiber_->go([this] { run_wire(); }, {.name = "comm wire"});
}

LocalWorld::~LocalWorld() {
  {
    const Shield shield;
    fiber_.reset();
  }
  end();
  // What is still on the wire reaches nobody.
  while (Posted* const one = wire_.has_value() ? wire_->pop_notice(TimePoint::max()) : nullptr) {
    delete one;
  }
  while (free_posted_ != nullptr) delete std::exchange(free_posted_, free_posted_->next);
  while (groups_ != nullptr) groups_ = std::shared_ptr<Group>(std::move(groups_->next));
}

// ---- communicators

Group* LocalWorld::find(std::uint64_t context) const noexcept {
  Group* one = groups_.get();
  while (one != nullptr && one->context != context) one = one->next.get();
  return one;
}

std::shared_ptr<Group> LocalWorld::open_group(std::uint64_t context, std::span<const int> members) {
  auto made = std::make_shared<Group>(context, members);
  const SpinLockGuard guard(lock_);
  if (Group* const there = find(context)) return there->shared_from_this();
  made->next = std::move(groups_);
  groups_ = made;
  return made;
}

void LocalWorld::close(Group& group) noexcept {
  std::shared_ptr<Group> last_owner;  // destroyed without the lock
  const SpinLockGuard guard(lock_);
  if (++group.closed < group.size()) return;
  std::shared_ptr<Group>* place = &groups_;
  while (place->get() != &group) place = &(*place)->next;
  last_owner = std::exchange(*place, std::shared_ptr<Group>(group.next));
}

// ---- operations

void LocalWorld::begin(Group& group, int rank, Operation& operation) noexcept {
  if (!add(operation, group.member(rank), group.context)) return finish(operation, &failure());
  Meeting* ready = nullptr;
  std::optional<Failure> wrong;
  try {
    const SpinLockGuard guard(lock_);
    // If the world has stopped, the operation may be gone.
    if (!stopped_) {
      ready = is_message(operation) ? come_to_peer(group, operation, wrong)
                                    : come(group, rank, operation, wrong);
    }
  } catch (const std::bad_alloc&) {
    wrong = {.what = "out of memory for operations under way; await some before others begin"};
  }
  if (wrong.has_value()) return fail(std::move(*wrong));
  if (ready != nullptr) return run(*ready, rank);
  if (is_modelled_) wake_wire();
}

// Makes sure that there is a free meeting and, given a collective, that its place holds no other
// one. May release the lock meanwhile.
void LocalWorld::reserve(Group& group, std::optional<std::uint64_t> number) {
  const auto holds_other = [&] {
    const Meeting* const there = number.has_value() ? group.place(*number) : nullptr;
    return there != nullptr && there->signature.number != *number;
  };
  while (!stopped_ && holds_other()) {
    std::vector<Meeting*> larger;
    const std::size_t size = group.ring.size();
    {
      const SpinUnlockGuard unlocked(lock_);
      larger.resize(2 * size);
    }
    if (group.ring.size() != size) continue;
    larger.swap(group.ring);
    for (Meeting* const one : larger) {
      if (one != nullptr) group.place(one->signature.number) = one;
    }
    const SpinUnlockGuard unlocked(lock_);
    larger = {};
  }
  while (!stopped_ && group.free == nullptr) {
    std::unique_ptr<Meeting> made;
    {
      const SpinUnlockGuard unlocked(lock_);
      made = std::make_unique<Meeting>(group);
    }
    group.put_free(*made);
    made->made_before = std::move(group.made);
    group.made = std::move(made);
  }
}

Meeting* LocalWorld::come(Group& group, int rank, Operation& operation,
                          std::optional<Failure>& wrong) {
  const Signature signature = operation.signature;
  do {
    reserve(group, signature.number);
    if (stopped_) return nullptr;
  } while (group.place(signature.number) != nullptr &&
           group.place(signature.number)->signature.number != signature.number);
  Meeting*& place = group.place(signature.number);
  if (place == nullptr) {
    place = &group.take_free();
    place->signature = signature;
    place->parts = group.members.size();
  }
  Meeting& meeting = *place;
  meeting.operations[static_cast<std::size_t>(rank)] = &operation;
  // A meeting with a rank that called something else is never complete: it is not run by who comes
  // last, before the world has failed.
  if (signature != meeting.signature) {
    wrong = mismatch_in(meeting, operation.rank);
    return nullptr;
  }
  for (int other = 0; group.left > 0 && other < group.size(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (!group.has_left[at] || meeting.operations[at] != nullptr) continue;
    wrong = mismatch_in(meeting, group.member(other));
    return nullptr;
  }
  if (++meeting.come < meeting.parts) return nullptr;
  place = nullptr;
  return complete(meeting);
}

Meeting* LocalWorld::come_to_peer(Group& group, Operation& operation,
                                  std::optional<Failure>& wrong) {
  reserve(group, std::nullopt);
  if (stopped_) return nullptr;
  const int peer = group.member(operation.peer);
  Operation* const other = group.match(operation);
  if (other == nullptr) {
    if (group.has_left[static_cast<std::size_t>(operation.peer)]) {
      wrong = mismatch(operation, peer,
                       std::array{RankCall{operation.rank, describe(operation, peer)},
                                  RankCall{peer, "has left"}});
    }
    return nullptr;
  }
  if (other->signature.count != operation.signature.count ||
      other->signature.dtype != operation.signature.dtype) {
    wrong = mismatch(operation, peer,
                     std::array{RankCall{operation.rank, describe(operation, peer)},
                                RankCall{peer, describe(*other, operation.rank)}});
    return nullptr;
  }
  const bool sends = operation.signature.kind == OperationKind::kSend;
  Meeting& meeting = group.take_free();
  meeting.parts = 2;
  meeting.operations[0] = sends ? &operation : other;
  meeting.operations[1] = sends ? other : &operation;
  meeting.signature = meeting.operations[0]->signature;
  return complete(meeting);
}

Failure LocalWorld::mismatch_in(const Meeting& meeting, int blamed) const {
  const Group& group = meeting.group;
  const Operation* first = nullptr;
  std::vector<RankCall> calls;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Operation* const one = meeting.operations[at];
    if (first == nullptr) first = one;
    const char* const without = group.has_left[at] ? "has left" : "nothing yet";
    calls.push_back({group.member(rank), one != nullptr ? describe(*one) : without});
  }
  LEAT_ASSERT(first != nullptr, "a rank has come");
  return mismatch(*first, blamed, calls);
}

// All have come. Returns the meeting if the caller is to run it.
Meeting* LocalWorld::complete(Meeting& meeting) noexcept {
  if (wire_.has_value()) {
    wire_->add(meeting, time());
    return nullptr;
  }
  return take(meeting) ? &meeting : nullptr;
}

bool LocalWorld::take(Meeting& meeting) noexcept {
  if (!take_all(meeting.all())) return false;
  meeting.users = 1;
  executing_.fetch_add(1, std::memory_order_relaxed);  // under the lock, which stop() takes
  return true;
}

void LocalWorld::run(Meeting& meeting, int rank) noexcept {
  meeting.prepare(options().link.moves_data);
  if (meeting.blocks > 1 && !is_modelled_) {
    {
      const SpinLockGuard guard(lock_);
      meeting.is_shared = true;
      meeting.next = meeting.group.running;
      meeting.group.running = &meeting;
    }
    shared_.fetch_add(1, std::memory_order_relaxed);
    const std::span<Operation* const> all = meeting.all();
    const auto at_most = std::min(meeting.blocks - 1, helpers_);
    std::uint64_t asked = 0;
    for (std::size_t i = 1; i <= all.size() && asked < at_most; ++i) {
      Operation& one = *all[(static_cast<std::size_t>(rank) + i) % all.size()];
      if (one.help_wanted != nullptr && one.help_wanted(one)) ++asked;
    }
  }
  work(meeting, 1);
}

// Does blocks until none is left. The caller has done `units` before, and is one of the users.
void LocalWorld::work(Meeting& meeting, std::uint64_t units) noexcept {
  units += meeting.do_blocks();
  // release: this user's work; acquire: that of all others.
  if (units > 0 && meeting.units_left.fetch_sub(units, std::memory_order_acq_rel) == units) {
    for (Operation* const one : meeting.all()) finish(*one);
    executing_.fetch_sub(1, std::memory_order_release);
  }
  const SpinLockGuard guard(lock_);
  release(meeting);
}

void LocalWorld::release(Meeting& meeting) noexcept {
  if (--meeting.users > 0) return;
  if (std::exchange(meeting.is_shared, false)) {
    Meeting** place = &meeting.group.running;
    while (*place != &meeting) place = &(*place)->next;
    *place = meeting.next;
    shared_.fetch_sub(1, std::memory_order_relaxed);
  }
  meeting.group.put_free(meeting);
}

void LocalWorld::help(Group& group) noexcept {
  if (shared_.load(std::memory_order_relaxed) == 0) return;  // who asks wakes the caller again
  Meeting* found = nullptr;
  {
    const SpinLockGuard guard(lock_);
    for (found = group.running; found != nullptr; found = found->next) {
      if (found->has_blocks()) break;
    }
    if (found != nullptr) ++found->users;
  }
  if (found != nullptr) work(*found, 0);
}

// ---- the end

void LocalWorld::leave(Group& group, int rank) noexcept {
  const auto at = static_cast<std::size_t>(rank);
  std::optional<Failure> wrong;
  {
    const SpinLockGuard guard(lock_);
    if (stopped_ || group.has_left[at]) return;
    group.has_left[at] = true;
    ++group.left;
    const int left = group.member(rank);
    const Meeting* first = nullptr;  // of those that wait for the rank
    for (const Meeting* const one : group.ring) {
      if (one == nullptr || one->operations[at] != nullptr) continue;
      if (first == nullptr || one->signature.number < first->signature.number) first = one;
    }
    if (first != nullptr) wrong = mismatch_in(*first, left);
    for (const Group::Bucket& bucket : group.buckets) {
      for (const Operation* one = bucket.first; one != nullptr && !wrong; one = one->link) {
        if (one->peer != rank) continue;
        wrong = mismatch(
            *one, left,
            std::array{RankCall{one->rank, describe(*one, left)}, RankCall{left, "has left"}});
      }
    }
  }
  if (wrong.has_value()) fail(std::move(*wrong));
}

void LocalWorld::stop(const Failure& /*failure*/, bool /*tell*/) noexcept {
  {
    const SpinLockGuard guard(lock_);
    stopped_ = true;
  }
  // acquire: the memory of operations is used no more. An execution parks nowhere.
  while (executing_.load(std::memory_order_acquire) > 0) yield();
}

Failure LocalWorld::late(const Operation& operation) {
  std::vector<int> missing;  // ranks of the world; empty: all have come
  int peer = -1;
  {
    const SpinLockGuard guard(lock_);
    Group* const group = find(operation.context);
    if (group != nullptr && is_message(operation)) {
      peer = group->member(operation.peer);
      if (group->waits(operation)) missing.push_back(peer);
    } else if (group != nullptr) {
      const Meeting* const there = group->place(operation.signature.number);
      const bool waits = there != nullptr && there->signature.number == operation.signature.number;
      for (int rank = 0; waits && rank < group->size(); ++rank) {
        if (there->operations[static_cast<std::size_t>(rank)] != nullptr) continue;
        missing.push_back(group->member(rank));
      }
    }
  }
  return late_operation(operation, peer, missing, options().deadline);
}

}  // namespace leat::comm
