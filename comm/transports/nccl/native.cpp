#include "leat/comm/transports/nccl/native.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::nccl {
namespace {

using namespace std::chrono_literals;

}  // namespace

void Native::open_stream() {
  const std::scoped_lock lock(mutex_);
  if (is_stopped_) throw Stopped();
  if (!stream_) stream_.emplace(device_);
}

ncclUniqueId Native::make_id() {
  ncclUniqueId id{};
  finish("ncclGetUniqueId", enter([&] { return library_->get_unique_id(&id); }), Deadline::never());
  return id;
}

void Native::init(const ncclUniqueId& id, int size, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result =
      enter([&] { return library_->comm_init(&comm_, size, id, rank, &config); });
  finish("ncclCommInitRankConfig", result, Deadline::never());
}

void Native::check() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = enter([&] { return library_->comm_get_async_error(comm_, &state); });
  if (asked != ncclSuccess) throw_error("ncclCommGetAsyncError", asked);
  if (state != ncclSuccess && state != ncclInProgress) throw_error("an operation", state);
}

// Asks until `name` is no more in progress.
void Native::finish(const char* name, ncclResult_t result, Deadline deadline) {
  for (Duration pause = 20us; result == ncclInProgress;
       pause = std::min<Duration>(2 * pause, 2ms)) {
    if (deadline.at() <= leat::now()) throw Error(std::string(name) + " takes too long");
    leat::sleep_for(pause);
    const ncclResult_t asked =
        enter([&] { return library_->comm_get_async_error(comm_, &result); });
    if (asked != ncclSuccess) throw_error("ncclCommGetAsyncError", asked);
  }
  if (result != ncclSuccess) throw_error(name, result);
}

void Native::throw_error(const char* name, ncclResult_t result) {
  const std::scoped_lock lock(mutex_);
  if (is_stopped_) throw Stopped();
  std::string text =
      std::string(name) + " on " + device_.name() + ": " + library_->get_error_string(result);
  const char* const words = library_->get_last_error(comm_);
  if (words != nullptr && *words != '\0') text += std::string(": ") + words;
  std::ranges::replace(text, '\n', ' ');
  throw Error(text);
}

// ncclCommFinalize lets no peer down that has not read everything yet; ncclCommDestroy alone might.
void Native::close(Deadline deadline) {
  if (comm_ == nullptr) return;
  finish("ncclCommFinalize", enter([&] { return library_->comm_finalize(comm_); }), deadline);
  const ncclResult_t result = enter([&] {  // an abort comes before, or after
    const ncclResult_t destroyed = library_->comm_destroy(comm_);
    if (destroyed == ncclSuccess) comm_ = nullptr;
    return destroyed;
  });
  if (result != ncclSuccess) throw_error("ncclCommDestroy", result);
}

void Native::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_stopped_, true)) return;
  const auto end = [](void* self) {
    auto& of = *static_cast<Native*>(self);
    ncclComm_t const comm = std::exchange(of.comm_, nullptr);
    if (comm != nullptr) static_cast<void>(of.library_->comm_abort(comm));
  };
  try {
    device_.backend()->call_current(end, this);
    if (stream_) stream_->sync();
  } catch (const std::exception&) {  // a device that has failed uses no memory
    end(this);
  }
}

}  // namespace leat::comm::nccl
