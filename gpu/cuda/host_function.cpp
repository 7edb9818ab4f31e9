#include "leat/gpu/cuda/host_function.h"

#include "leat/gpu/error.h"

namespace leat::gpu::cuda {

void Failure::remember_current_exception() noexcept {
  const std::scoped_lock lock(mutex_);  // a second caller also returns after failed_ is set
  if (error_ != nullptr) return;
  try {
    std::string what = "an unknown exception";
    try {
      throw;
    } catch (const std::exception& error) {
      what = error.what();
    } catch (...) {
      // an exception of an unknown type
    }
    throw GpuError(0, "a host function failed: " + what, "launch_host", device_name_,
                   "the device takes no more work: open it again");
  } catch (...) {
    error_ = std::current_exception();  // the GpuError, or std::bad_alloc
  }
  failed_.store(true, std::memory_order_release);
}

void CUDART_CB HostFunction::run(void* released) noexcept {
  const auto call = Pool<HostFunction>::Ref::adopt(released);
  try {
    call->function_();
  } catch (...) {
    call->failure_->remember_current_exception();
  }
}

}  // namespace leat::gpu::cuda
