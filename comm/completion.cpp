#include "leat/comm/completion.h"

#include <string>

#include "leat/comm/transports/world.h"
#include "leat/csp/scheduler.h"

namespace leat::comm {

Operation& CompletionState::open(const Ref& self, std::shared_ptr<Transport> transport,
                                 const Operation& operation) {
  CompletionState& state = *self;
  state.transport_ = std::move(transport);
  state.operation_ = operation;
  state.operation_.owner = &state;
  state.operation_.finished = &finished;
  state.operation_.help_wanted = &help_wanted;
  state.operation_.is_awaited = &is_awaited;
  // Peers end the wait, which the scheduler of the rank that waits cannot see.
  state.channel_.core().get()->expect_only(nullptr);
  state.self_ = Ref(self).release();
  return state.operation_;
}

void CompletionState::begin(const Ref& self, std::shared_ptr<Transport> transport,
                            const Operation& operation) {
  Operation& opened = open(self, std::move(transport), operation);
  self->transport_->begin(opened);
}

void CompletionState::finished(Operation& operation, const Failure* failure) noexcept {
  auto& state = *static_cast<CompletionState*>(operation.owner);
  const Ref self = Ref::adopt(state.self_);  // until the last access below
  state.failure_ = failure;
  state.done_.store(true, std::memory_order_release);
  std::optional<Signal> unheard;  // a call for help that was not heard
  static_cast<void>(state.channel_.try_recv(unheard));
  static_cast<void>(state.channel_.try_send(Signal::kDone));
}

bool CompletionState::help_wanted(Operation& operation) noexcept {
  auto& state = *static_cast<CompletionState*>(operation.owner);
  return state.awaited_.load(std::memory_order_relaxed) &&
         state.channel_.try_send(Signal::kHelp) == ChannelStatus::ok;
}

// In await() or in select.
bool CompletionState::is_awaited(const Operation& operation) noexcept {
  return static_cast<CompletionState*>(operation.owner)->channel_.stats().receivers > 0;
}

bool CompletionState::wait(Deadline deadline) {
  if (is_done()) {
    throw_if_failed();
    return true;
  }
  awaited_.store(true, std::memory_order_relaxed);
  struct NotAwaited {
    ~NotAwaited() { awaited.store(false, std::memory_order_relaxed); }
    std::atomic<bool>& awaited;
  } const not_awaited{awaited_};
  for (;;) {
    transport_->help(operation_);
    std::optional<Signal> signal;
    if (deadline.is_never()) {
      signal = channel_.recv();
    } else if (channel_.recv_until(signal, deadline.at()) == ChannelStatus::timed_out) {
      return false;
    }
    if (*signal == Signal::kHelp) continue;
    static_cast<void>(channel_.try_send(Signal::kDone));  // there is room
    throw_if_failed();
    return true;
  }
}

void CompletionState::accept(Signal signal) {
  if (signal == Signal::kHelp) {  // of an earlier wait, which timed out
    static_cast<void>(wait(Deadline::never()));
    return;
  }
  static_cast<void>(channel_.try_send(Signal::kDone));
  throw_if_failed();
}

void CompletionState::throw_if_failed() const {
  if (failure_ != nullptr) throw_failure(transport_->world_rank(), *failure_);
}

void CompletionState::give_up() noexcept {
  if (!is_done()) {
    const Shield shield;
    const int rank = transport_->world_rank();
    const std::string what = to_string(operation_.signature);
    transport_->world().fail(
        {.peer = rank,
         .operation = what,
         .what = "rank " + std::to_string(rank) + " gave up " + what +
                 ": an exception or a cancellation destroyed its completion before it had ended"});
    try {
      static_cast<void>(wait(Deadline::never()));
    } catch (const CommError&) {  // the one above, or an earlier one
    }
  }
  // By the owner, and not with the last reference to the state, which may be finished()'s: on a
  // fiber of the world, which cannot end the world.
  transport_ = nullptr;
}

void CompletionState::recycle() noexcept {
  std::optional<Signal> token;
  static_cast<void>(channel_.try_recv(token));
  done_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
}

Completion& Completion::operator=(Completion&& other) noexcept {
  if (this != &other) {
    if (state_) state_->give_up();
    state_ = std::move(other.state_);
  }
  return *this;
}

Completion::~Completion() {
  if (state_) state_->give_up();
}

void Completion::await() { static_cast<void>(state_->wait(Deadline::never())); }

bool Completion::await_until(TimePoint deadline) { return state_->wait(Deadline(deadline)); }

}  // namespace leat::comm
