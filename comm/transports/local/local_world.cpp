#include "leat/comm/transports/local/local_world.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "leat/comm/transports/rank_calls.h"
#include "leat/csp/base/assert.h"
#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/random.h"
#include "leat/csp/scheduler.h"

namespace leat::comm {
namespace {

// The key of the meeting that an operation comes to, and its place there.
std::pair<Meeting::Key, std::size_t> place_of(int rank, const Operation& operation) noexcept {
  const std::uint64_t number = operation.signature.number;
  if (operation.peer < 0) return {{.number = number}, static_cast<std::size_t>(rank)};
  if (operation.signature.kind == OperationKind::kSend) return {{rank, operation.peer, number}, 0};
  return {{operation.peer, rank, number}, 1};
}

// Whether two operations of a meeting belong together.
bool fit(const Operation& operation, const Signature& other) noexcept {
  const Signature& mine = operation.signature;
  if (operation.peer < 0) return mine == other;
  return mine.count == other.count && mine.dtype == other.dtype &&
         mine.on_device == other.on_device;
}

}  // namespace

std::list<Meeting>& Group::waiting_with(const Meeting::Key& key) noexcept {
  const auto ends =
      (static_cast<std::uint64_t>(key.from) << 32) | static_cast<std::uint32_t>(key.to);
  return waiting[mix(key.number + ends * kRandomStep) % waiting.size()];
}

LocalWorld::LocalWorld(int ranks, const OpenOptions& options)
    : World(options, ranks, 0, ranks), helpers_(static_cast<std::uint64_t>(usable_cpus()) - 1) {
  if (!options.link.enabled) return;
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
}

// ---- communicators

std::shared_ptr<Group> LocalWorld::open_group(std::uint64_t context, std::span<const int> members) {
  std::map<std::uint64_t, std::shared_ptr<Group>> made;
  made.emplace(context, std::make_shared<Group>(context, members));
  const SpinLockGuard guard(lock_);
  groups_.merge(made);  // unless it is there
  return groups_.at(context);
}

void LocalWorld::close(Group& group) noexcept {
  decltype(groups_)::node_type last_owner;  // destroyed without the lock, as what it had reserved
  std::list<Meeting> unused;
  const SpinLockGuard guard(lock_);
  if (++group.closed < group.size()) return;
  last_owner = groups_.extract(group.context);
  const std::size_t most = std::min(group.reserved, free_.size());
  unused.splice(unused.end(), free_, free_.begin(),
                std::next(free_.begin(), static_cast<std::ptrdiff_t>(most)));
}

// ---- operations

void LocalWorld::begin(Group& group, int rank, Operation& operation) noexcept {
  if (!add(operation, group.member(rank), group.context)) return finish(operation, &failure());
  Meeting* ready = nullptr;
  std::optional<Failure> wrong;
  try {
    const SpinLockGuard guard(lock_);
    // If the world has stopped, the operation may be gone.
    if (!stopped_) ready = come(group, rank, operation, wrong);
  } catch (const std::bad_alloc&) {
    wrong = {.what = "out of memory for operations under way; await some before others begin"};
  }
  if (wrong.has_value()) return fail(std::move(*wrong));
  if (ready != nullptr) return run(*ready);
  if (options().link.enabled) wake_wire();
}

// Returns the meeting if it is complete and the caller is to run it.
Meeting* LocalWorld::come(Group& group, int rank, Operation& operation,
                          std::optional<Failure>& wrong) {
  const auto [key, part] = place_of(rank, operation);
  std::list<Meeting>& waiting = group.waiting_with(key);
  auto there = waiting.begin();
  while (there != waiting.end() && (there->key != key || there->operations[part] != nullptr)) {
    ++there;
  }
  if (there == waiting.end()) {  // the first to come
    if (free_.empty()) free_.emplace_back();
    Meeting& one = free_.front();
    one.self = free_.begin();
    const std::size_t parts = operation.peer < 0 ? group.members.size() : 2;
    one.operations.assign(parts, nullptr);
    one.inputs.resize(parts);
    one.outputs.resize(parts);
    one.group = &group;
    one.key = key;
    one.signature = operation.signature;
    one.come = 0;
    there = one.self;
    waiting.splice(waiting.end(), free_, there);
  }
  Meeting& meeting = *there;
  meeting.operations[part] = &operation;
  // A meeting with a rank that called something else is never complete: it is not run by who comes
  // last, before the world has failed.
  if (!fit(operation, meeting.signature)) {
    wrong = mismatch_in(meeting, group.member(operation.peer < 0 ? rank : operation.peer));
    return nullptr;
  }
  for (std::size_t i = 0; group.left > 0 && i < meeting.operations.size(); ++i) {
    if (meeting.operations[i] != nullptr || !group.is_gone(meeting.rank_of(i))) continue;
    wrong = mismatch_in(meeting, group.member(meeting.rank_of(i)));
    return nullptr;
  }
  if (++meeting.come < meeting.operations.size()) return nullptr;
  meeting.signature = meeting.operations[0]->signature;  // a send's, whoever came first
  if (wire_.has_value()) {
    wire_->add(waiting, meeting, time());
    return nullptr;
  }
  running_.splice(running_.end(), waiting, there);
  return take(meeting);
}

Failure LocalWorld::mismatch_in(const Meeting& meeting, int blamed) const {
  const Group& group = *meeting.group;
  const Operation* first = nullptr;
  std::vector<RankCall> calls;
  for (std::size_t i = 0; i < meeting.operations.size(); ++i) {
    const int rank = meeting.rank_of(i);
    const Operation* const one = meeting.operations[i];
    if (first == nullptr) first = one;
    const char* const without = group.is_gone(rank) ? "has left" : "nothing yet";
    const int peer = one == nullptr || one->peer < 0 ? -1 : group.member(one->peer);
    calls.push_back({group.member(rank), one != nullptr ? describe(*one, peer) : without});
  }
  LEAT_ASSERT(first != nullptr, "a rank has come");
  return mismatch(*first, blamed, calls);
}

// Of a meeting in running_. Returns null if the world fails: then it does not run.
Meeting* LocalWorld::take(Meeting& meeting) noexcept {
  if (take_all(meeting.operations)) return &meeting;
  free_.splice(free_.begin(), running_, meeting.self);
  return nullptr;
}

void LocalWorld::run(Meeting& meeting) noexcept {
  meeting.prepare(options().link.moves_data);
  if (meeting.blocks > 1 && !options().link.enabled) {
    {
      const SpinLockGuard guard(lock_);
      meeting.is_shared = true;
      meeting.users = 1;
    }
    shared_.fetch_add(1, std::memory_order_relaxed);
    std::uint64_t to_ask = std::min(meeting.blocks - 1, helpers_);
    for (Operation* const one : meeting.operations) {
      if (to_ask > 0 && one->help_wanted != nullptr && one->help_wanted(*one)) --to_ask;
    }
  }
  work(meeting);
}

// Does blocks until none is left. The caller is one of the users, if it is shared.
void LocalWorld::work(Meeting& meeting) noexcept {
  meeting.do_blocks();
  if (meeting.is_shared) {
    const SpinLockGuard guard(lock_);
    if (--meeting.users > 0) return;  // who still does a block finishes the operations
    meeting.is_shared = false;
    shared_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (Operation* const one : meeting.operations) finish(*one);
  const SpinLockGuard guard(lock_);
  free_.splice(free_.begin(), running_, meeting.self);
}

void LocalWorld::help(const Group& group) noexcept {
  if (shared_.load(std::memory_order_relaxed) == 0) return;  // who asks wakes the caller again
  Meeting* found = nullptr;
  {
    const SpinLockGuard guard(lock_);
    const auto there = std::ranges::find_if(running_, [&](const Meeting& one) {
      return one.group == &group && one.is_shared && one.has_blocks();
    });
    if (there == running_.end()) return;
    found = &*there;
    ++found->users;
  }
  work(*found);
}

// ---- the end

void LocalWorld::leave(Group& group, int rank) noexcept {
  std::optional<Failure> wrong;
  {
    const SpinLockGuard guard(lock_);
    if (stopped_ || group.is_gone(rank)) return;
    group.has_left[static_cast<std::size_t>(rank)] = true;
    ++group.left;
    const Meeting* first = nullptr;  // of those that wait for the rank
    for (const std::list<Meeting>& waiting : group.waiting) {
      for (const Meeting& one : waiting) {
        for (std::size_t i = 0; i < one.operations.size(); ++i) {
          if (one.operations[i] != nullptr || one.rank_of(i) != rank) continue;
          if (first == nullptr || one.key < first->key) first = &one;
        }
      }
    }
    if (first != nullptr) wrong = mismatch_in(*first, group.member(rank));
  }
  if (wrong.has_value()) fail(std::move(*wrong));
}

void LocalWorld::stop(const Failure& /*failure*/, bool /*tell*/) noexcept {
  for (;; yield()) {  // what runs parks nowhere
    const SpinLockGuard guard(lock_);
    stopped_ = true;
    if (running_.empty()) return;
  }
}

World::Missing LocalWorld::missing(const Operation& operation) {
  Missing found;
  const SpinLockGuard guard(lock_);
  const auto there = groups_.find(operation.context);
  if (there == groups_.end()) return found;
  Group& group = *there->second;
  if (operation.peer >= 0) found.peer = group.member(operation.peer);
  const auto rank = std::ranges::find(group.members, operation.rank) - group.members.begin();
  const auto [key, part] = place_of(static_cast<int>(rank), operation);
  for (const Meeting& one : group.waiting_with(key)) {
    if (one.key != key || one.operations[part] == nullptr) continue;
    for (std::size_t i = 0; i < one.operations.size(); ++i) {
      if (one.operations[i] == nullptr) found.ranks.push_back(group.member(one.rank_of(i)));
    }
    break;
  }
  return found;
}

// ---- notices, and what is on the wire

// Where a notice takes no time, and none waits for its receiver, its sender hands it over: so a
// pool grows only as long as the receiver does not listen.
void LocalWorld::post(const std::shared_ptr<Group>& group, int from, int to,
                      std::span<const Notice> notices) {
  const bool takes_time = options().link.enabled && options().link.delta > Duration::zero();
  Group::Mailbox& box = group->mailboxes[static_cast<std::size_t>(to)];
  bool waits = false;
  {
    const SpinLockGuard guard(lock_);
    if (stopped_) return;
    waits = takes_time || !box.listener || box.is_flushed;
    for (const Notice& one : notices) {
      if (!waits) break;
      if (free_posted_.empty()) free_posted_.emplace_back();
      Posted& posted = free_posted_.front();
      posted.notice = one;
      posted.notice.from = from;
      posted.to = to;
      if (takes_time) {
        posted.group = group;
        wire_->post(free_posted_, time());
      } else {
        box.waiting.splice(box.waiting.end(), free_posted_, free_posted_.begin());
      }
    }
  }
  for (Notice one : notices) {
    if (waits) break;
    one.from = from;
    static_cast<void>(box.listener.try_send(Notice(one)));  // a closed one hears nothing
  }
  if (takes_time) wake_wire();
}

void LocalWorld::reserve(Group& group, std::size_t operations) {
  std::list<Meeting> made(operations);
  for (Meeting& one : made) {
    one.operations.reserve(group.members.size());
    one.inputs.reserve(group.members.size());
    one.outputs.reserve(group.members.size());
  }
  const SpinLockGuard guard(lock_);
  group.reserved += operations;
  free_.splice(free_.begin(), made);
}

void LocalWorld::listen(Group& group, int rank, Channel<Notice>&& notices) {
  Group::Mailbox& box = group.mailboxes[static_cast<std::size_t>(rank)];
  const SpinLockGuard guard(lock_);
  box.listener = std::move(notices);
  flush(box);
}

// Hands over what waits, in order. Only one does at a time; what comes meanwhile, it hands over.
void LocalWorld::flush(Group::Mailbox& box) noexcept {
  if (!box.listener || box.is_flushed) return;
  box.is_flushed = true;
  while (!box.waiting.empty()) {
    const Notice notice = box.waiting.front().notice;
    free_posted_.splice(free_posted_.begin(), box.waiting, box.waiting.begin());
    const SpinUnlockGuard unlocked(lock_);
    static_cast<void>(box.listener.try_send(Notice(notice)));  // a closed one hears nothing
  }
  box.is_flushed = false;
}

// Wakes the wire's fiber if something ends before the time until which it sleeps.
void LocalWorld::wake_wire() noexcept {
  {
    const SpinLockGuard guard(lock_);
    const TimePoint next = wire_->next();
    if (next >= wire_sleeps_until_) return;
    wire_sleeps_until_ = next;
  }
  bell_.ring();
}

void LocalWorld::run_wire() {
  for (;;) {
    Meeting* ended = nullptr;
    std::shared_ptr<Group> group;  // of a notice that has arrived; released without the lock
    TimePoint next = TimePoint::max();
    {
      const SpinLockGuard guard(lock_);
      if (!stopped_) {
        const TimePoint now = time();
        std::list<Posted> arrived;
        if (Meeting* const one = wire_->pop(now, running_)) {
          ended = take(*one);
        } else if (wire_->pop_notice(now, arrived)) {
          group = std::move(arrived.front().group);
          Group::Mailbox& box = group->mailboxes[static_cast<std::size_t>(arrived.front().to)];
          box.waiting.splice(box.waiting.end(), arrived);
          flush(box);
        }
        next = wire_->next();
      }
      const bool sleeps = ended == nullptr && group == nullptr;
      wire_sleeps_until_ = sleeps ? next : TimePoint::min();
    }
    if (ended != nullptr) {
      run(*ended);
    } else if (group == nullptr) {
      bell_.wait_until(next);
    }
  }
}

}  // namespace leat::comm
