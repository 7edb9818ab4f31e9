#include "leat/csp/blocking.h"

#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/io_pool.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/scheduler.h"

namespace leat {

IoPool* io_pool_of_caller() {
  const Fiber* const fiber = Fiber::current();
  if (fiber == nullptr) return nullptr;
  if (!fiber->core().clock().is_virtual()) return &fiber->core().io_pool();
  if (fiber->shall_stop()) throw Cancelled{};
  return nullptr;
}

void run_blocking(IoPool& pool, void (*call)(void* argument), void* argument) {
  class Call final : public BlockingCall {
   public:
    // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): as WaitNode
    Call(void (*f)(void*), void* of) noexcept : call_(f), argument_(of) {}
    void run() noexcept override { call_(argument_); }

   private:
    void (*const call_)(void*);
    void* const argument_;
  };
  Call one(call, argument);
  const OutsideWork outside;
  pool.run(one);
}

}  // namespace leat
