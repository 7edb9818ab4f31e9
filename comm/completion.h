// The end of an operation. A fiber or thread awaits it, or selects on it.
//
// Example
//   leat::comm::Completion sum = communicator.all_reduce(gradient);
//   compute();
//   sum.await();                                         // gradient has the sum now
//
//   leat::select(leat::comm::on_done(sum, [&] { use(gradient); }),
//                leat::on_recv(commands, [&](auto command) { handle(command); }));
//
// A rank that waits in await() may be asked to do a part of the operation's work meanwhile. A rank
// that waits in select is not asked.
//
// The scheduler takes a wait as one for something outside. So if a peer does not come, await()
// throws CommError at the deadline, not Deadlock.
//
// Ownership: the operation's memory belongs to the communicator until the operation has ended.
// Destroying a Completion earlier (by an exception or cancellation) gives the operation up and
// frees its memory. Every rank then gets a CommError.
//
// Thread and fiber safety: one fiber or thread at a time. Allocates nothing after warm-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "leat/comm/transports/transport.h"
#include "leat/csp/select.h"
#include "leat/gpu/backend/pool.h"

namespace leat::comm {

/// What a completion's channel carries.
enum class Signal : std::uint8_t {
  kHelp,  // to a rank that waits in await(): there is work to do
  kDone,
};

/// The state of a Completion, with its operation; reused by a pool. The transport holds a reference
/// from begin() until finished() has returned.
class CompletionState {
 public:
  using Ref = gpu::Pool<CompletionState>::Ref;

  CompletionState() = default;
  CompletionState(const CompletionState&) = delete;
  CompletionState& operator=(const CompletionState&) = delete;
  ~CompletionState() = default;

  /// Prepares an operation that its caller ends, by finished(). `self` is this state.
  static Operation& open(const Ref& self, std::shared_ptr<Transport> transport,
                         const Operation& operation);
  /// Begins an operation as `transport`. `self` is this state.
  static void begin(const Ref& self, std::shared_ptr<Transport> transport,
                    const Operation& operation);
  [[nodiscard]] const Channel<Signal>& channel() const noexcept { return channel_; }
  [[nodiscard]] bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Waits until the operation has ended: returns true; or until `deadline`: returns false. Helps.
  [[nodiscard]] bool wait(Deadline deadline);
  /// Makes sure that the operation has ended, keeps the channel ready, and throws the failure, if
  /// there is one. Called by the receiver of `signal`.
  void accept(Signal signal);
  /// Gives the operation up, if it has not ended, waits until its memory is free, and lets go of
  /// the transport. The owner's last call.
  void give_up() noexcept;
  /// Called by the pool.
  void recycle() noexcept;

 private:
  static void finished(Operation& operation, const Failure* failure) noexcept;
  static bool help_wanted(Operation& operation) noexcept;
  static bool is_awaited(const Operation& operation) noexcept;
  void throw_if_failed() const;

  Operation operation_;
  std::shared_ptr<Transport> transport_;  // the owner's
  void* self_ = nullptr;                  // the transport's reference
  const Channel<Signal> channel_{1, "comm operation"};
  const Failure* failure_ = nullptr;  // before done_
  std::atomic<bool> done_{false};
  std::atomic<bool> awaited_{false};
};

/// The end of one operation of a communicator. Move-only; an object that was moved from is empty:
/// destroy it, or assign to it.
class [[nodiscard]] Completion {
 public:
  /// For Communicator.
  explicit Completion(CompletionState::Ref state) noexcept : state_(std::move(state)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&& other) noexcept;
  ~Completion();

  /// Waits until the operation has ended. Throws CommError, CommMismatch, Cancelled. Returns at
  /// once if it has ended before.
  void await();
  /// As await(), but waits at most until `deadline` (of the caller's clock: leat::now()). Returns
  /// whether the operation has ended; if not, it goes on.
  [[nodiscard]] bool await_until(TimePoint deadline);
  /// Whether the operation has ended, with or without an error. Does not wait.
  [[nodiscard]] bool is_done() const noexcept { return state_->is_done(); }

  /// For on_done.
  [[nodiscard]] CompletionState& state() const noexcept { return *state_; }

 private:
  CompletionState::Ref state_;
};

/// A case of select that is ready when the operation has ended; select then calls handler(). If
/// communication has failed, select throws CommError instead. The case stays ready. Borrows the
/// completion, which must outlive the select.
template <class F = NoHandler>
[[nodiscard]] auto on_done(const Completion& completion, F handler = {}) {
  CompletionState* const state = &completion.state();
  return on_recv(state->channel(),
                 [state, handler = std::move(handler)](std::optional<Signal> signal) mutable {
                   state->accept(*signal);
                   handler();
                 });
}

}  // namespace leat::comm
