// The switch itself, to be inlined where fibers park: every function that is entered on one stack
// and left on another costs a mispredicted return. For csp's own .cpp files.
//
// This and context.cpp are the files that name Boost.Context, and the place that tells the
// sanitizers about a switch.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>

#include "leat/csp/fiber/context.h"
#include "leat/csp/wait/sanitizers.h"

#if defined(LEAT_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace leat {

namespace bc = boost::context::detail;

// Not checked for races: what runs before a switch and what runs after it are one thread, but two
// fibers to TSan, and the switch does not synchronise them (see jump).
#define LEAT_SWITCHES __attribute__((no_sanitize("thread")))

// Every frame between the caller of an operation and the switch costs a mispredicted return.
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
#define LEAT_INLINE inline  // an instrumented function does not take in one that is not
#else
#define LEAT_INLINE inline __attribute__((always_inline))
#endif

// Travels with a jump; lives on the stack of the context that is left, which stays untouched until
// that context is continued, hence after the arriving side has read it.
struct ContextTransfer {
  Context* from;
  Context* to;
};

// Runs first on the context arrived at (*this): completes the switch that the other side began.
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
  // No synchronisation by the switch itself: the order between fibers is made by the scheduler's
  // atomics alone, so that a race between two fibers of one worker is seen as one.
  __tsan_switch_to_fiber(to.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  const bc::transfer_t in = bc::jump_fcontext(to.registers_, &out);
  arrive(in.data, in.fctx);
}

}  // namespace leat
