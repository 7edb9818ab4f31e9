#include "leat/comm/transports/mpi/engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>

#include "leat/csp/base/start_thread.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::mpi {
namespace {

constexpr Duration kGrace = std::chrono::seconds(1);
constexpr Duration kMostRest = std::chrono::milliseconds(1);
constexpr Duration kLeastRest = std::chrono::microseconds(20);
// How long the thread sleeps at most, in eighths of the deadline too: others may ask.
constexpr Duration kMostSleep = std::chrono::milliseconds(100);
// How long a rank that fails tries to tell the others.
constexpr Duration kTelling = std::chrono::milliseconds(100);

// On the caller's clock.
TimePoint after_deadline(const OpenOptions& options) noexcept {
  return Deadline::after(Deadline::after(leat::now(), options.deadline).at(), kGrace).at();
}

TimePoint now_here() noexcept { return SteadyClock::instance().now(); }

}  // namespace

// ---- the start and the end

void Engine::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    start_thread("the thread that owns MPI", [this] { run(); }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Engine::wait_for_mpi() {
  const OutsideWork outside;
  if (!ready_.wait_until(after_deadline(options_))) {
    throw Error("leat: comm::open(\"mpi\"): MPI_Init has not returned by the deadline");
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "leat-mpi");
  thread_.store(std::this_thread::get_id());
  try {
    wire_.emplace(options_);
    everyone_.resize(static_cast<std::size_t>(wire_->size()));
    std::iota(everyone_.begin(), everyone_.end(), 0);
    peers_.resize(everyone_.size());
  } catch (...) {
    error_ = std::current_exception();
    stopped_ = true;
  }
  ready_.notify();
  if (!stopped_) served_.wait();
  while (!stopped_) work();
  halted_.notify();
}

void Engine::serve(const std::shared_ptr<World>& world) {
  world_ = world;
  serving_ = world.get();
  served_.notify();
}

void Engine::end() noexcept {
  if (!home_.is_here()) return;
  const Shield shield;
  call([this] {
    if (std::exchange(ends_, true)) return;
    peers_[static_cast<std::size_t>(rank())].said_goodbye = true;
    wire_->send_to_others(everyone_, {.kind = MessageKind::kGoodbye});
  });
  const OutsideWork outside;
  if (halted_.wait_until(after_deadline(options_))) return;
  // The others do not end. MPI_Finalize would wait for them.
  const Failure late{.operation = "the end of the process",
                     .what = "rank " + std::to_string(rank()) +
                             " waited for the others at the end of its process until the deadline"};
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.failure = &late;
    inbox_.tell = true;
  }
  ring();
  // `late` is not used after that: if the thread hangs in MPI_Finalize, it reads no inbox.
  static_cast<void>(halted_.wait_until(Deadline::after(leat::now(), kGrace / 2).at()));
}

// ---- from any thread

void Engine::ring() noexcept {
  // seq_cst: the inbox was written before, under its lock.
  if (word_.exchange(kRung) == kAsleep) futex_wake(&word_);
}

void Engine::call(std::function<void()> what) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.calls.push_back(std::move(what));
  }
  ring();
}

void Engine::submit(Operation& operation) {
  call([this, &operation] {
    ++under_way_;
    static_cast<Group*>(operation.state)->begin(operation);
  });
}

void Engine::post(const std::shared_ptr<Group>& group, int to, std::span<const Notice> notices) {
  {
    const SpinLockGuard guard(inbox_lock_);
    for (const Notice& one : notices) inbox_.posted.push_back({group, to, one});
  }
  ring();
}

void Engine::join(std::shared_ptr<Group> group) {
  call([this, group = std::move(group)] {
    groups_.emplace(group->context(), group);
    if (const auto early = early_.extract(group->context())) {
      for (const KeptMessage& one : early.mapped()) {
        group->received(one.from, one.header, one.data.data());
      }
    }
    for (const int member : group->members()) {
      if (peers_[static_cast<std::size_t>(member)].said_goodbye) {
        group->received(member, {.kind = MessageKind::kLeave}, nullptr);
      }
    }
  });
}

void Engine::stop(const Failure& failure, bool tell) noexcept {
  if (is_here()) return halt(failure, tell);
  {
    const SpinLockGuard guard(inbox_lock_);
    if (world_ended_) return;
    inbox_.failure = &failure;
    inbox_.tell = tell;
  }
  ring();
  const OutsideWork outside;
  halted_.wait();
}

void Engine::world_ends() noexcept {
  if (!is_here()) return;
  const SpinLockGuard guard(inbox_lock_);
  world_ended_ = true;
  if (inbox_.failure == nullptr) return;
  // The watchdog waits in stop() for this thread, which waits for the watchdog.
  inbox_.failure = nullptr;
  stopped_ = true;
  halted_.notify();
}

// ---- on MPI's thread

// Until the world fails, or the process ends.
void Engine::work() {
  try {
    try {
      for (int quiet_turns = 0; !stopped_;) {
        if (turn()) {
          quiet_turns = 0;
        } else if (!stopped_) {
          rest(++quiet_turns);
        }
      }
    } catch (const std::exception& error) {
      fail({.peer = -1, .operation = "MPI", .what = std::string("MPI failed: ") + error.what()});
    }
  } catch (const Stopped&) {
    is_failing_ = true;  // somebody else may fail the world at the same time, and calls stop()
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
    const Duration length = std::min<Duration>(options_.deadline / 8, kMostSleep);
    futex_wait(word_, kAsleep, is_failing_ ? Deadline::never() : Deadline(now_here() + length));
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
  if (!is_failing_) send_posted();
  for (const auto& one : taken_.calls) {
    if (!is_failing_) one();
  }
  taken_.calls.clear();
  return true;
}

// Those of a group to one rank share messages as far as they follow one another.
void Engine::send_posted() {
  const std::vector<Posted>& all = taken_.posted;
  for (std::size_t i = 0; i < all.size();) {
    const Posted& first = all[i];
    batch_.clear();
    for (; i < all.size() && all[i].group == first.group && all[i].to == first.to; ++i) {
      batch_.push_back(all[i].notice);
    }
    first.group->post(first.to, batch_);
  }
  taken_.posted.clear();
}

Group* Engine::find(std::uint64_t context) const noexcept {
  const auto group = groups_.find(context);
  return group != groups_.end() ? group->second.get() : nullptr;
}

void Engine::received(const Message& message) {
  const auto& [from, header, data] = message;
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  if (header.kind == MessageKind::kFail) {
    was_told_ = true;
    fail(failure_in(header, data), false);
  } else if (header.kind == MessageKind::kFailed) {
    peer.blames = header.tag;
    answer_for(from);
    const auto cause = static_cast<std::uint64_t>(1 + header.tag);
    if (const std::shared_ptr<World> world = world_.lock()) {
      world->tell_listeners({.from = from, .kind = World::kFailed, .value = cause});
    }
  } else if (header.kind == MessageKind::kAsk) {
    received_question(from, header);
  } else if (header.kind == MessageKind::kAnswer) {
    received_answer(message);
  } else if (header.kind == MessageKind::kGoodbye) {
    peer.said_goodbye = true;
    answer_for(from);
    for (const auto& [context, group] : groups_) {
      group->received(from, {.kind = MessageKind::kLeave}, nullptr);
    }
  } else if (Group* const group = find(header.context)) {
    group->received(from, header, data);
  } else {
    early_[header.context].push_back({from, header, {data, data + header.bytes}});
  }
}

// ---- what ranks wait for

// What a rank has said of itself that has ended its world, or MPI.
std::optional<Answer> Engine::last_words(int rank) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer.blames) return peer.said_goodbye ? std::optional(Answer()) : std::nullopt;
  Answer answer{.waits = true};
  if (*peer.blames >= 0) answer.whom.push_back({.rank = *peer.blames});
  return answer;
}

void Engine::ask(const Wait& asked, std::shared_ptr<Inquiry> inquiry, std::size_t question) {
  std::erase_if(asked_, [](const Open& one) { return one.inquiry.use_count() == 1; });  // too late
  if (const std::optional<Answer> known = last_words(asked.rank)) {
    return inquiry->answer(question, *known);
  }
  asked_.push_back({++questions_, asked.rank, std::move(inquiry), question});
  wire_->send(
      asked.rank,
      {.kind = MessageKind::kAsk, .tag = asked.by, .context = asked.context, .value = questions_});
}

void Engine::answer_for(int rank) {
  for (const Open& one : asked_) {
    if (one.rank == rank) one.inquiry->answer(one.question, *last_words(rank));
  }
  std::erase_if(asked_, [&](const Open& one) { return one.rank == rank; });
}

void Engine::received_question(int from, const Header& header) {
  const auto tell = [this, from, number = header.value](const Answer& answer) {
    call([this, from, told = message_of(answer, number)] {
      wire_->send(from, told.header, told.data.data());
    });
  };
  if (const std::shared_ptr<World> world = world_.lock()) {
    world->ask_here({.rank = rank(), .by = header.tag, .context = header.context}, tell);
  } else {
    tell({});
  }
}

void Engine::received_answer(const Message& message) {
  const auto open = std::find_if(asked_.begin(), asked_.end(), [&](const Open& one) {
    return one.number == message.header.value;
  });
  if (open == asked_.end()) return;
  open->inquiry->answer(open->question, answer_in(message.header, message.data));
  asked_.erase(open);
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
    const bool speaks = !was_told_ || !taken_.posted.empty();
    send_posted();     // what this rank said before: that it leaves, and why
    if (!was_told_) {  // the last message
      const KeptMessage last = message_of(failure, tell);
      wire_->send_to_others(everyone_, last.header, last.data.data());
    }
    const TimePoint until = now_here() + kTelling;
    while (speaks && wire_->poll_headers() && now_here() < until) yield_cpu();
  } catch (const std::exception&) {  // MPI has failed: the others find out by themselves
  }
  stopped_ = true;
}

}  // namespace leat::comm::mpi
