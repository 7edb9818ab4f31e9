#include "leat/comm/transports/mpi/engine.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::mpi {
namespace {

constexpr Duration kGrace = std::chrono::seconds(1);

// On the caller's clock.
TimePoint after_deadline(const OpenOptions& options) noexcept {
  return Deadline::after(Deadline::after(leat::now(), options.deadline).at(), kGrace).at();
}

}  // namespace

// ---- the start and the end

void Engine::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(std::string("leat: cannot start the thread that owns MPI: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
    halted_.notify();
    ready_.notify();
    return;
  }
  ready_.notify();
  served_.wait();
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

void Engine::join(std::shared_ptr<Group> group) {
  call([this, group = std::move(group)] {
    groups_.emplace(group->context(), group);
    if (const auto early = early_.extract(group->context())) {
      for (const KeptMessage& one : early.mapped()) {
        group->received(one.from, one.header, one.data.data());
      }
    }
    for (const int member : group->members()) {
      if (peers_[static_cast<std::size_t>(member)].said_goodbye) group->world_rank_left(member);
    }
  });
}

void Engine::post(Group& group, int to, std::span<const Notice> notices) {
  {
    const SpinLockGuard guard(inbox_lock_);
    for (Notice one : notices) {
      one.from = group.rank();
      inbox_.posted.push_back({&group, to, one});
    }
  }
  ring();
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

}  // namespace leat::comm::mpi
