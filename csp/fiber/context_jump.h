// The switch itself. It is inlined where fibers park, because every function that is entered on one
// stack and left on another costs a mispredicted return. For the .cpp files of csp alone.
//
// This file and context.cpp name Boost.Context, and tell the sanitizers about each switch.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/fiber/context.h"

#if defined(LEAT_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace leat {

namespace bc = boost::context::detail;

// Not checked for races: the code before a switch and the code after it run on one thread, but to
// TSan they are two fibers, which the switch does not synchronise (see jump). Nor by ASan, which
// would put local variables on the fake stack that the switch replaces.
#define LEAT_SWITCHES __attribute__((no_sanitize("thread"), no_sanitize("address")))

// Every frame between the caller of an operation and the switch costs a mispredicted return.
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
#define LEAT_INLINE inline  // an instrumented function does not take in one that is not
#else
#define LEAT_INLINE inline __attribute__((always_inline))
#endif

// The argument of a jump. It lives on the stack of the context that is left. That stack stays
// unchanged until the context is continued, so the arriving side can read the argument.
struct ContextTransfer {
  Context* from;
  Context* to;
};

// Runs first on the context that was switched to (*this): completes the switch.
LEAT_SWITCHES LEAT_INLINE void Context::arrive(void* transfer_data, void* from_registers) noexcept {
  Context* from = static_cast<ContextTransfer*>(transfer_data)->from;
  from->registers_ = from_registers;
#if defined(LEAT_ASAN)
  const void* from_low = nullptr;
  std::size_t from_size = 0;
  __sanitizer_finish_switch_fiber(asan_fake_stack_, &from_low, &from_size);
  if (from->stack_.low == nullptr) {
    from->stack_ = {static_cast<std::byte*>(const_cast<void*>(from_low)), from_size};
  }
#endif
}

LEAT_SWITCHES LEAT_INLINE void Context::jump(Context& to, ExceptionState* thread,
                                             [[maybe_unused]] bool last) noexcept {
  exceptions_ = *thread;
  *thread = to.exceptions_;
#if defined(LEAT_ASAN)
  __sanitizer_start_switch_fiber(last ? nullptr : &asan_fake_stack_, to.stack_.low, to.stack_.size);
#endif
  ContextTransfer out{this, &to};
#if defined(LEAT_TSAN)
  // The switch itself does not synchronise: only the scheduler's atomics order fibers, so that TSan
  // sees a race between two fibers of one worker.
  __tsan_switch_to_fiber(to.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  const bc::transfer_t in = bc::jump_fcontext(to.registers_, &out);
  arrive(in.data, in.fctx);
}

}  // namespace leat
