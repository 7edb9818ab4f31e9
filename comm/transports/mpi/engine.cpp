#include "leat/comm/transports/mpi/engine.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
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
    rank_ = wire_->rank();
    size_ = wire_->size();
    heard_.resize(static_cast<std::size_t>(size_));
    said_goodbye_.resize(static_cast<std::size_t>(size_), 0);
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
  const Shield shield;
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.ends = true;
  }
  ring();
  const OutsideWork outside;
  if (halted_.wait_until(after_deadline(options_))) return;
  // The others do not end. MPI_Finalize would wait for them.
  const Failure late{.operation = "the end of the process",
                     .what = "rank " + std::to_string(rank_) +
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

void Engine::submit(Operation& operation) noexcept {
  operation.link = nullptr;
  {
    const SpinLockGuard guard(inbox_lock_);
    (inbox_.last != nullptr ? inbox_.last->link : inbox_.first) = &operation;
    inbox_.last = &operation;
  }
  ring();
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

void Engine::listen(std::shared_ptr<Group> group, const Channel<Notice>& notices) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.requests.push_back({std::move(group), notices});
  }
  ring();
}

void Engine::leave(std::shared_ptr<Group> group) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.requests.push_back({std::move(group), std::nullopt});
  }
  ring();
}

void Engine::ask(std::shared_ptr<Question> question) {
  {
    const SpinLockGuard guard(inbox_lock_);
    inbox_.questions.push_back(std::move(question));
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
