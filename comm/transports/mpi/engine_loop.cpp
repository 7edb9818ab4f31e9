// What MPI's thread does: see engine.h.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/failure_text.h"

namespace leat::comm::mpi {
namespace {

constexpr Duration kMostRest = std::chrono::milliseconds(1);
constexpr Duration kLeastRest = std::chrono::microseconds(20);
// How long a rank that fails tries to tell the others.
constexpr Duration kTelling = std::chrono::milliseconds(100);

TimePoint now_here() noexcept { return SteadyClock::instance().now(); }

}  // namespace

// Until the world fails, or the process ends.
void Engine::work() {
  try {
    for (int quiet_turns = 0; !stopped_;) {
      if (turn()) {
        quiet_turns = 0;
      } else if (!stopped_) {
        rest(++quiet_turns);
      }
    }
  } catch (const Stopped&) {
    is_failing_ = true;  // somebody else may fail the world at the same time, and calls stop()
  } catch (const std::exception& error) {
    try {
      fail({.peer = -1, .operation = "MPI", .what = std::string("MPI failed: ") + error.what()});
    } catch (const Stopped&) {
      is_failing_ = true;
    }
  }
}

bool Engine::turn() {
  bool worked = take_inbox();
  if (stopped_) return true;
  if (is_failing_) return false;
  worked |= wire_->poll();
  for (Message message; wire_->receive(message); worked = true) received(message);
  end_finished(true);
  forget_groups();
  return try_end() || worked;
}

// Returns whether MPI was left in peace.
bool Engine::try_end() {
  if (!ends_) return false;
  if (goodbyes_ < size_ - 1 || !wire_->is_idle()) return false;
  wire_->close();
  stopped_ = true;
  return true;
}

void Engine::rest(int quiet_turns) {
  const bool waits =
      !is_failing_ && (under_way_ > 0 || !wire_->is_idle() || listeners_ > 0 || ends_);
  if (quiet_turns == 1) quiet_since_ = now_here();
  if (quiet_turns <= kSpins && waits) return cpu_relax();
  if (quiet_turns <= (waits ? kYields : kYieldsWhenIdle)) return yield_cpu();
  std::uint32_t awake = kAwake;
  if (!word_.compare_exchange_strong(awake, kAsleep)) return;  // rung
  if (waits) {
    const TimePoint at = now_here();
    const Duration length = std::clamp<Duration>((at - quiet_since_) / 16, kLeastRest, kMostRest);
    futex_wait(word_, kAsleep, Deadline(at + length));
  } else {
    futex_wait(word_, kAsleep, Deadline::never());
  }
  std::uint32_t asleep = kAsleep;
  word_.compare_exchange_strong(asleep, kAwake);
}

bool Engine::take_inbox() {
  if (word_.load(std::memory_order_relaxed) != kRung) return false;
  word_.exchange(kAwake);
  Operation* first = nullptr;
  {
    const SpinLockGuard guard(inbox_lock_);
    std::swap(inbox_.posted, taken_.posted);
    std::swap(inbox_.requests, taken_.requests);
    std::swap(inbox_.questions, taken_.questions);
    first = std::exchange(inbox_.first, nullptr);
    inbox_.last = nullptr;
    taken_.failure = std::exchange(inbox_.failure, nullptr);
    taken_.tell = inbox_.tell;
    taken_.ends = std::exchange(inbox_.ends, false);
  }
  if (taken_.failure != nullptr) {
    halt(*taken_.failure, taken_.tell);
    return true;
  }
  if (is_failing_) return true;
  while (first != nullptr) {
    Operation& operation = *std::exchange(first, first->link);
    ++under_way_;
    auto& group = *static_cast<Group*>(operation.state);
    know(group);
    group.begin(operation);
  }
  send_notices();
  for (const Request& one : taken_.requests) {
    know(*one.group);
    if (one.listener) {
      ++listeners_;
      one.group->listen(*one.listener);
      continue;
    }
    if (one.group->is_listening()) --listeners_;
    one.group->leave();
    leaving_.push_back(one.group);
  }
  taken_.requests.clear();
  for (const auto& one : taken_.questions) {
    const auto group = groups_.find(one->operation.context);
    if (group != groups_.end()) {
      one->missing = group->second->missing(one->operation);
      if (one->operation.peer >= 0) one->peer = group->second->world_rank(one->operation.peer);
    }
    one->answered.notify();
  }
  taken_.questions.clear();
  if (taken_.ends && !ends_) {
    ends_ = true;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) wire_->send(rank, {.kind = MessageKind::kGoodbye});
    }
  }
  return true;
}

// Notices that go to one rank, one after the other, share a message.
void Engine::send_notices() {
  const std::vector<Posted>& posted = taken_.posted;
  for (std::size_t i = 0; i < posted.size();) {
    Group& group = *posted[i].group;
    const int to = posted[i].to;
    know(group);
    batch_.clear();
    while (i < posted.size() && posted[i].group == &group && posted[i].to == to &&
           (batch_.size() + 1) * sizeof(Notice) <= kInlineBytes) {
      batch_.push_back(posted[i++].notice);
    }
    if (to == group.rank()) {
      group.deliver(batch_);
      continue;
    }
    wire_->send(group.world_rank(to),
                {.kind = MessageKind::kNotices,
                 .bytes = static_cast<std::uint32_t>(batch_.size() * sizeof(Notice)),
                 .context = group.context()},
                batch_.data());
  }
  taken_.posted.clear();
}

// The first time that the thread hears of the group: what others said to it has waited.
void Engine::know(Group& group) {
  if (std::exchange(group.is_known, true)) return;
  groups_.emplace(group.context(), group.shared_from_this());
  if (const auto early = early_.find(group.context()); early != early_.end()) {
    const std::vector<Early> messages = std::move(early->second);
    early_.erase(early);
    for (const Early& one : messages) group.received(one.from, one.header, one.data.data());
  }
  for (const int member : group.members()) {
    if (said_goodbye_[static_cast<std::size_t>(member)] != 0) group.world_rank_left(member);
  }
}

void Engine::received(const Message& message) {
  const Header& header = *message.header;
  hear(message.from);
  if (header.kind == MessageKind::kFail) {
    fail(failure_of(header, message.data), false);
  }
  if (header.kind == MessageKind::kGoodbye) {
    said_goodbye_[static_cast<std::size_t>(message.from)] = 1;
    ++goodbyes_;
    for (const auto& [context, group] : groups_) group->world_rank_left(message.from);
    return;
  }
  const auto group = groups_.find(header.context);
  if (group == groups_.end()) {
    early_[header.context].push_back(
        {message.from, header, {message.data, message.data + header.bytes}});
    return;
  }
  group->second->received(message.from, header, message.data);
}

void Engine::hear(int rank) noexcept { heard_[static_cast<std::size_t>(rank)] = now_here(); }

int Engine::most_silent(std::span<const int> ranks) const noexcept {
  return *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
    return heard_[static_cast<std::size_t>(a)] < heard_[static_cast<std::size_t>(b)];
  });
}

// `all`: also those that read another rank's memory.
void Engine::end_finished(bool all) {
  for (const Finished& one : finished_) {
    if (one.read_memory && !all) continue;
    // Until its end the operation keeps its world alive.
    if (!serving_->take(*one.operation)) throw Stopped{};
    --under_way_;
    serving_->finish(*one.operation);
  }
  finished_.clear();
}

void Engine::forget_groups() {
  std::erase_if(leaving_, [&](const std::shared_ptr<Group>& one) {
    if (!one->is_over()) return false;
    groups_.erase(one->context());
    return true;
  });
}

// ---- failing

void Engine::fail(Failure failure, bool tell) {
  // What this rank finds wrong came after what has ended by then.
  if (tell) end_finished(false);
  if (const std::shared_ptr<World> world = world_.lock()) {
    world->fail(std::move(failure), tell);  // calls halt(), unless another thread fails it
  } else {
    halt(failure, tell);
  }
  throw Stopped{};
}

void Engine::halt(const Failure& failure, bool tell) noexcept {
  if (stopped_) return;
  if (tell) tell_failure(failure);
  stopped_ = true;
  halted_.notify();
}

void Engine::tell_failure(const Failure& failure) noexcept {
  try {
    Header header{.kind = MessageKind::kFail};
    const std::string text = failure_text(failure, header);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) wire_->send(rank, header, text.data());
    }
    const TimePoint until = now_here() + kTelling;
    while (wire_->sends_headers() && now_here() < until) {
      wire_->poll_headers();
      yield_cpu();
    }
  } catch (const std::exception&) {  // MPI has failed: the others find out by themselves
  }
}

}  // namespace leat::comm::mpi
