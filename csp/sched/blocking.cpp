#include "leat/csp/blocking.h"

#include "leat/csp/fiber/fiber.h"
#include "leat/csp/scheduler.h"

namespace leat {

IoPool* io_pool_of_caller() {
  const Fiber* const fiber = Fiber::current();
  if (fiber == nullptr) return nullptr;
  if (!fiber->core().clock().is_virtual()) return &fiber->core().io_pool();
  if (fiber->shall_stop()) throw Cancelled{};
  return nullptr;
}

void run_blocking(IoPool& pool, BlockingCall& call) {
  const OutsideWork outside;
  pool.run(call);
}

}  // namespace leat
