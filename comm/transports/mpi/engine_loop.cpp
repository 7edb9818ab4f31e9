// What MPI's thread does: see engine.h.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "leat/comm/transports/mpi/engine.h"

namespace leat::comm::mpi {
namespace {

constexpr Duration kMostRest = std::chrono::milliseconds(1);
constexpr Duration kLeastRest = std::chrono::microseconds(20);
// How long a rank that fails tries to tell the others.
constexpr Duration kTelling = std::chrono::milliseconds(100);

// Of each of a failure's texts, as another rank hears it.
constexpr std::size_t kMostText = kInlineBytes / 3 - 1;

TimePoint now_here() noexcept { return SteadyClock::instance().now(); }

// The failure that another rank tells.
Failure failure_of(const Message& message) {
  const Header& header = message.header;
  Failure failure{.is_mismatch = header.is_absent, .peer = header.tag};
  std::string_view rest(reinterpret_cast<const char*>(message.data), header.bytes);
  for (std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
    const std::size_t end = rest.find('\0');
    *one = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return failure;
}

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

// Returns whether there was something to do.
bool Engine::turn() {
  bool worked = take_inbox();
  if (stopped_) return true;
  if (is_failing_) return false;
  worked |= wire_->poll();
  for (Message message; wire_->receive(message); wire_->release()) {
    worked = true;
    received(message);
  }
  end_finished(true);
  if (worked) std::erase_if(groups_, [](const auto& one) { return one.second->is_over(); });
  if (ends_ && wire_->is_idle() &&
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& one) { return one.said_goodbye; })) {
    wire_->close();
    stopped_ = true;
  }
  return worked;
}

void Engine::rest(int quiet_turns) {
  const auto listens = [](const auto& one) { return one.second->is_listening(); };
  const bool waits = !is_failing_ && (under_way_ > 0 || !wire_->is_idle() || ends_ ||
                                      std::any_of(groups_.begin(), groups_.end(), listens));
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
  {
    const SpinLockGuard guard(inbox_lock_);
    std::swap(inbox_, taken_);
  }
  if (taken_.failure != nullptr) {
    halt(*taken_.failure, taken_.tell);
    return true;
  }
  if (!is_failing_) {
    send_notices();  // before this rank leaves their group
    for (const auto& one : taken_.calls) one();
  }
  taken_.posted.clear();
  taken_.calls.clear();
  return true;
}

// Notices that go to one rank, one after the other, share a message.
void Engine::send_notices() {
  const std::vector<Posted>& posted = taken_.posted;
  for (std::size_t i = 0; i < posted.size();) {
    Group& group = *posted[i].group;
    const int to = posted[i].to;
    batch_.clear();
    while (i < posted.size() && posted[i].group == &group && posted[i].to == to &&
           (batch_.size() + 1) * sizeof(Notice) <= kInlineBytes) {
      batch_.push_back(posted[i++].notice);
    }
    wire_->send(group.world_rank(to),
                {.kind = MessageKind::kNotices,
                 .bytes = static_cast<std::uint32_t>(batch_.size() * sizeof(Notice)),
                 .context = group.context()},
                batch_.data());
  }
}

Group* Engine::find(std::uint64_t context) const noexcept {
  const auto group = groups_.find(context);
  return group != groups_.end() ? group->second.get() : nullptr;
}

void Engine::received(const Message& message) {
  const auto& [from, header, data] = message;
  hear(from);
  if (header.kind == MessageKind::kFail) fail(failure_of(message), false);
  if (header.kind == MessageKind::kGoodbye) {
    peers_[static_cast<std::size_t>(from)].said_goodbye = true;
    for (const auto& [context, group] : groups_) group->world_rank_left(from);
  } else if (Group* const group = find(header.context)) {
    group->received(from, header, data);
  } else {
    early_[header.context].push_back({from, header, {data, data + header.bytes}});
  }
}

void Engine::hear(int rank) noexcept { peers_[static_cast<std::size_t>(rank)].heard = now_here(); }

int Engine::most_silent(std::span<const int> ranks) const noexcept {
  return *std::min_element(ranks.begin(), ranks.end(), [&](int a, int b) {
    return peers_[static_cast<std::size_t>(a)].heard < peers_[static_cast<std::size_t>(b)].heard;
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
  try {
    if (tell) tell_failure(failure);
  } catch (const std::exception&) {  // MPI has failed: the others find out by themselves
  }
  stopped_ = true;
  halted_.notify();
}

void Engine::tell_failure(const Failure& failure) {
  std::string text;
  for (const std::string* const one : {&failure.operation, &failure.tensor, &failure.what}) {
    text += std::string_view(*one).substr(0, kMostText);
    text += '\0';
  }
  wire_->send_to_others(everyone_,
                        {.kind = MessageKind::kFail,
                         .is_absent = failure.is_mismatch,
                         .bytes = static_cast<std::uint32_t>(text.size()),
                         .tag = failure.peer},
                        text.data());
  const TimePoint until = now_here() + kTelling;
  while (wire_->sends_headers() && now_here() < until) {
    wire_->poll_headers();
    yield_cpu();
  }
}

}  // namespace leat::comm::mpi
