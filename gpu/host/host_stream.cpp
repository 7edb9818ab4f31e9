#include "leat/gpu/host/host_stream.h"

#include <cstring>
#include <exception>
#include <optional>
#include <utility>

namespace leat::gpu::host {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace

HostStream::HostStream(std::shared_ptr<Engines> engines, std::string name)
    : engines_(std::move(engines)), name_(std::move(name)), operations_(kQueueDepth, name_) {}

void HostStream::enqueue(HostOperation operation) {
  if (const std::exception_ptr error = engines_->error()) std::rethrow_exception(error);
  // Enqueueing is no cancellation point: a fiber that unwinds records the release of its buffers.
  const Shield shield;
  enqueued_.fetch_add(1, std::memory_order_relaxed);
  try {
    operations_.send(std::move(operation));
  } catch (const ChannelClosed&) {
    completed_.fetch_add(1, std::memory_order_release);
    if (const std::exception_ptr error = engines_->error()) std::rethrow_exception(error);
    throw GpuError(0, "the stream was destroyed", "enqueue", engines_->device(),
                   "keep the Stream alive while a StreamRef to it is used");
  }
}

bool HostStream::is_done() const noexcept {
  // acquire: whoever sees that all is done sees what the operations wrote. completed_ first: it
  // never passes enqueued_.
  const std::uint64_t completed = completed_.load(std::memory_order_acquire);
  return completed == enqueued_.load(std::memory_order_relaxed);
}

void HostStream::run() noexcept {
  engines_->enter_stream_fiber();
  std::optional<HostOperation> operation;
  try {
    while ((operation = operations_.recv())) {
      perform(*operation);
      operation.reset();
      completed_.fetch_add(1, std::memory_order_release);
    }
  } catch (const Cancelled&) {
    engines_->fail(GpuError(0, "device lost", name_, engines_->device(),
                            "the scheduler that it ran on has ended: open the device inside the run "
                            "that uses it, or on a plain thread"));
    operations_.try_close();
    do {
      if (!operation.has_value()) continue;  // cancelled while it waited for the first one
      end_with_error(*operation);
      operation.reset();
      completed_.fetch_add(1, std::memory_order_release);
    } while (operations_.try_recv(operation) == ChannelStatus::ok);
  }
  engines_->leave_stream_fiber();
}

// Throws Cancelled only; anything else is the device's error from then on.
void HostStream::perform(HostOperation& operation) {
  if (engines_->error() != nullptr) {
    end_with_error(operation);
    return;
  }
  const auto act = Overloaded{
      [&](CopyOperation& copy) {
        engines_->engine(copy.direction)
            .occupy(engines_->copy_time(copy.direction, copy.bytes),
                    [&] { std::memcpy(copy.to, copy.from, copy.bytes); });
      },
      [&](KernelOperation& kernel) {
        engines_->compute().occupy(kernel.modelled_time, [&] { kernel.function(); });
      },
      [&](RecordOperation& record) { record.completion->complete(now(), nullptr); },
      [&](WaitOperation& wait) { wait.completion->wait(); },
      [&](RetainOperation& retain) { retain.memory.reset(); },
  };
  try {
    std::visit(act, operation);
  } catch (const std::exception& e) {
    engines_->fail(GpuError(0, std::string("an operation failed: ") + e.what(), name_,
                            engines_->device(), "the device accepts no more work; open it again"));
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    engines_->fail(GpuError(0, "an operation failed with an unknown exception", name_,
                            engines_->device(), "the device accepts no more work; open it again"));
  }
}

void HostStream::end_with_error(HostOperation& operation) noexcept {
  if (auto* const record = std::get_if<RecordOperation>(&operation)) {
    record->completion->complete(now(), engines_->error());
  }
}

}  // namespace leat::gpu::host
