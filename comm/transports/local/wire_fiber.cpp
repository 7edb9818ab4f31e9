// LocalWorld: notices, and the fiber that ends what is on the wire.
#include <new>
#include <utility>

#include "leat/comm/transports/local/local_world.h"

namespace leat::comm {

Posted& LocalWorld::take_posted() {
  if (free_posted_ == nullptr) {
    const SpinUnlockGuard unlocked(lock_);
    return *new Posted;
  }
  Posted& posted = *std::exchange(free_posted_, free_posted_->next);
  return posted;
}

void LocalWorld::post(Group& group, int from, int to, std::span<const Notice> notices) {
  {
    Group::Mailbox& box = group.mailboxes[static_cast<std::size_t>(to)];
    const SpinLockGuard guard(lock_);
    for (const Notice& one : notices) {
      if (stopped_) return;
      Posted& posted = take_posted();
      posted.notice = one;
      posted.notice.from = from;
      posted.to = to;
      if (wire_.has_value() && options().link.delta > Duration::zero()) {
        posted.group = group.shared_from_this();
        wire_->post(posted, time());
      } else {
        box.waiting.push(posted);
      }
    }
    flush(box);
  }
  if (is_modelled_) wake_wire();
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
  while (Posted* const one = box.waiting.pop()) {
    const Notice notice = one->notice;
    one->next = free_posted_;
    free_posted_ = one;
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
  static_cast<void>(bell_.try_send(0));
}

void LocalWorld::run_wire() {
  for (;;) {
    std::shared_ptr<Group> group;  // until the last use of it below
    Meeting* ended = nullptr;
    TimePoint next = TimePoint::max();
    {
      const SpinLockGuard guard(lock_);
      const TimePoint now = time();
      if (!stopped_) {
        ended = wire_->pop(now);
        if (ended != nullptr) {
          group = ended->group.shared_from_this();
          if (!take(*ended)) ended = nullptr;
        } else if (Posted* const notice = wire_->pop_notice(now); notice != nullptr) {
          group = std::move(notice->group);
          Group::Mailbox& box = group->mailboxes[static_cast<std::size_t>(notice->to)];
          box.waiting.push(*notice);
          flush(box);
        }
        next = wire_->next();
      }
      wire_sleeps_until_ = group != nullptr ? TimePoint::min() : next;
    }
    if (ended != nullptr) run(*ended, 0);
    if (group != nullptr) continue;
    std::optional<char> token;
    static_cast<void>(bell_.recv_until(token, next));
  }
}

}  // namespace leat::comm
