#include "leat/gpu/host/stream.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/error.h"

namespace leat::gpu::host {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;  // clang 14 does not deduce it

constexpr const char* kOpenAgain = "the device accepts no more work; open it again";

}  // namespace

HostStream::HostStream(std::shared_ptr<Engines> engines, std::string name)
    : engines_(std::move(engines)), name_(std::move(name)), operations_(kQueueDepth, name_) {}

void HostStream::enqueue_any(HostOperation operation) {
  if (const std::exception_ptr error = engines_->error()) std::rethrow_exception(error);
  // Not a cancellation point, because a fiber that unwinds still enqueues the records that release
  // its buffers. Only a deadlock ends the wait.
  const Shield shield;
  {
    const SpinLockGuard guard(lock_);
    ++enqueued_;
  }
  const auto undo = [&] {
    {
      const SpinLockGuard guard(lock_);
      --enqueued_;
      // Memory that was retained meanwhile must not wait for this operation, which was not sent.
      for (auto it = retained_.rbegin(); it != retained_.rend() && it->until > enqueued_; ++it) {
        it->until = enqueued_;
      }
    }
    release_passed();
  };
  ChannelStatus status = operations_.try_send(std::move(operation));
  if (status == ChannelStatus::would_block) {
    const ExpectWakeFrom making_room(engines_->scheduler());
    try {
      if (runs_caller()) {
        throw GpuError(0, "a kernel cannot wait for its own stream", "enqueue", engines_->device(),
                       "the stream's queue is full: enqueue less there, or on another stream");
      }
      engines_->refuse_foreign_virtual_time("to wait for room in a stream's queue");
      // NOLINTNEXTLINE(bugprone-use-after-move): a send that did not take place leaves its value
      status = operations_.send_until(std::move(operation), TimePoint::max());
    } catch (...) {
      undo();
      throw;
    }
  }
  if (status == ChannelStatus::ok) return;
  undo();
  if (const std::exception_ptr error = engines_->error()) std::rethrow_exception(error);
  throw GpuError(0, "the stream was destroyed", "enqueue", engines_->device(),
                 "keep the Stream alive while a StreamRef to it is used");
}

bool HostStream::is_done() const noexcept {
  const SpinLockGuard guard(lock_);
  return completed_ == enqueued_;
}

bool HostStream::retain(const std::shared_ptr<void>& memory) noexcept {
  std::list<Retained> one;  // allocated, and freed if it is not needed, without the lock
  try {
    one.push_back({.until = 0, .memory = memory});
  } catch (const std::bad_alloc&) {
    return is_done();
  }
  const SpinLockGuard guard(lock_);
  if (completed_ == enqueued_) return true;
  one.front().until = enqueued_;
  retained_.splice(retained_.end(), one);
  return true;
}

void HostStream::fail_device(const char* what, const char* detail, const char* advice) noexcept {
  try {
    engines_->fail(std::make_exception_ptr(
        GpuError(0, std::string(what) + detail, name_, engines_->device(), advice)));
  } catch (const std::bad_alloc&) {
    engines_->fail(std::current_exception());
  }
}

void HostStream::run() noexcept {
  const StreamFiber running(*engines_);
  // relaxed: a reader only asks whether it is this fiber itself
  fiber_.store(calling_fiber(), std::memory_order_relaxed);
  std::optional<HostOperation> operation;
  try {
    while ((operation = operations_.recv())) {
      perform(*operation);
      finish(operation);
    }
  } catch (const Cancelled&) {
    fail_device("device lost", "",
                "the scheduler that it ran on has ended: open the device inside the run that uses "
                "it, or on a plain thread");
    operations_.try_close();
    do {
      if (operation.has_value()) finish(operation);  // none if cancelled before the first
    } while (operations_.try_recv(operation) == ChannelStatus::ok);
  }
  fiber_.store(nullptr, std::memory_order_relaxed);
}

bool HostStream::runs_caller() const noexcept {
  const Fiber* const caller = calling_fiber();
  return caller != nullptr && fiber_.load(std::memory_order_relaxed) == caller;
}

// Throws only Cancelled. Every other exception becomes the device's error.
void HostStream::perform(HostOperation& operation) {
  if (engines_->error() != nullptr) return;
  reached_ =
      std::max(reached_, operation.enqueued == TimePoint::min() ? now() : operation.enqueued);
  if (fails(operation)) return;
  const auto act = Overloaded{
      [&](CopyOperation& copy) {
        const Duration time = engines_->copy_time(copy.direction, copy.bytes, copy.first);
        reached_ = engines_->engine(copy.direction).run(reached_, time, [&] {
          std::memcpy(copy.to, copy.from, copy.bytes);
        });
      },
      [&](KernelOperation& kernel) {
        reached_ =
            engines_->compute().run(reached_, kernel.modelled_time, [&] { kernel.function(); });
      },
      [](RecordOperation&) {},  // finish() completes it
      [&](WaitOperation& wait) {
        wait.record->wait();
        // Another scheduler may have another clock.
        const bool same_clock = &wait.record->scheduler() == &engines_->scheduler();
        reached_ = std::max(reached_, same_clock ? wait.record->at() : now());
      },
  };
  try {
    std::visit(act, operation.what);
  } catch (const std::exception& e) {
    fail_device("an operation failed: ", e.what(), kOpenAgain);
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    static_cast<void>(kept_exception());
    fail_device("an operation failed with an unknown exception", "", kOpenAgain);
  }
}

bool HostStream::fails(const HostOperation& operation) noexcept {
  const char* const fault =
      engines_->next_fault(std::holds_alternative<CopyOperation>(operation.what),
                           std::holds_alternative<KernelOperation>(operation.what));
  if (fault == nullptr) return false;
  fail_device(fault, "",
              "HostModel::faults asked for it; the device accepts no more work: open it again");
  return true;
}

void HostStream::release_passed() noexcept {
  for (;;) {
    std::list<Retained> passed;
    if (!take_passed(passed)) return;
  }
}

// Moves one piece of memory that no operation needs any more to `passed`, to be released without
// the lock.
bool HostStream::take_passed(std::list<Retained>& passed) noexcept {
  const SpinLockGuard guard(lock_);
  if (retained_.empty() || retained_.front().until > completed_) return false;
  passed.splice(passed.end(), retained_, retained_.begin());
  return true;
}

// Ends an operation, whether it ran or not. A record is completed last: a fiber that it wakes finds
// the stream done and the memory of earlier operations released.
void HostStream::finish(std::optional<HostOperation>& operation) noexcept {
  EventRecordRef reached;
  if (auto* const record = std::get_if<RecordOperation>(&operation->what)) {
    reached = std::move(record->record);
  }
  operation.reset();  // without the lock, because a closure's destructor is user code
  {
    const SpinLockGuard guard(lock_);
    ++completed_;
  }
  release_passed();
  if (!reached) return;
  const std::exception_ptr error = engines_->error();  // if set, no operation is performed any more
  reached->complete(error == nullptr ? reached_ : now(), error);
}

}  // namespace leat::gpu::host
