#include "leat/csp/context.h"

#include <cxxabi.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>

#include "leat/csp/sanitizers.h"

#if defined(LEAT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LEAT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace leat {

namespace bc = boost::context::detail;

// Not checked for races: what runs before a switch and what runs after it are one thread, but two
// fibers to TSan, and the switch does not synchronise them (see jump).
#define LEAT_SWITCHES __attribute__((no_sanitize("thread")))

namespace {

// Travels with a jump; lives on the stack of the context that is left, which stays untouched until
// that context is continued, hence after the arriving side has read it.
struct Transfer {
  Context* from;
  Context* to;
};

}  // namespace

struct Context::Boost {
  [[noreturn]] LEAT_SWITCHES static void enter(bc::transfer_t transfer) {
    Context* self = static_cast<Transfer*>(transfer.data)->to;
    self->arrive(transfer.data, transfer.fctx);
    self->entry_(self->argument_);
    std::abort();  // an entry function ends with exit_to
  }
};

Context::ExceptionState* Context::exceptions_of_thread() noexcept {
  return reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

void Context::adopt_current_thread() noexcept {
#if defined(LEAT_TSAN)
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

LEAT_SWITCHES void Context::prepare(StackSpan stack, Entry entry, void* argument) noexcept {
  stack_ = stack;
  entry_ = entry;
  argument_ = argument;
#if defined(LEAT_ASAN)
  // Frames of the previous owner that never returned (its entry function) left their red zones.
  __asan_unpoison_memory_region(stack.low, stack.size);
#endif
#if defined(LEAT_TSAN)
  tsan_fiber_ = __tsan_create_fiber(0);
  owns_tsan_fiber_ = true;
#endif
  registers_ = bc::make_fcontext(stack.low + stack.size, stack.size, &Boost::enter);
}

LEAT_SWITCHES void Context::discard() noexcept {
#if defined(LEAT_TSAN)
  if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
  owns_tsan_fiber_ = false;
#endif
  exceptions_ = {};
}

LEAT_SWITCHES void Context::take_over_from(Context& ended) noexcept {
  stack_ = ended.stack_;
  exceptions_ = {};
}

Context::~Context() { discard(); }

void Context::exit_to(Context& to, ExceptionState* thread) noexcept {
  jump(to, thread, true);
  std::abort();  // somebody switched back to a context that had ended
}

LEAT_SWITCHES void Context::jump(Context& to, ExceptionState* thread,
                                 [[maybe_unused]] bool last) noexcept {
  exceptions_ = *thread;
  *thread = to.exceptions_;
#if defined(LEAT_ASAN)
  __sanitizer_start_switch_fiber(last ? nullptr : &asan_fake_stack_, to.stack_.low, to.stack_.size);
#endif
  Transfer out{this, &to};
#if defined(LEAT_TSAN)
  // No synchronisation by the switch itself: the order between fibers is made by the scheduler's
  // atomics alone, so that a race between two fibers of one worker is seen as one.
  __tsan_switch_to_fiber(to.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  const bc::transfer_t in = bc::jump_fcontext(to.registers_, &out);
  arrive(in.data, in.fctx);
}

// Runs first on the context arrived at (*this): completes the switch that the other side began.
LEAT_SWITCHES void Context::arrive(void* transfer_data, void* from_registers) noexcept {
  Context* from = static_cast<Transfer*>(transfer_data)->from;
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

}  // namespace leat
