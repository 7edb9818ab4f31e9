#include "leat/csp/fiber/context.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/fiber/context_jump.h"

#if defined(LEAT_ASAN)
#include <sanitizer/asan_interface.h>
#endif
#if defined(LEAT_TSAN) && __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace leat {

struct Context::Boost {
  [[noreturn]] LEAT_SWITCHES static void enter(bc::transfer_t transfer) {
    Context* self = static_cast<ContextTransfer*>(transfer.data)->to;
    self->arrive(transfer.data, transfer.fctx);
    self->entry_(self->argument_);
    std::abort();  // an entry function ends with exit_to
  }
};

Context::ExceptionState* Context::exceptions_of_thread() noexcept {
  return reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

void Context::adopt_current_thread() noexcept {
  stack_ = {};
#if defined(LEAT_TSAN)
#if __has_include(<sys/single_threaded.h>)
  // In a process with one thread, libstdc++ counts the owners of a shared_ptr without atomics. To
  // ThreadSanitizer the fibers of that thread are threads, which only atomics synchronise.
  __libc_single_threaded = 0;
#endif
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

LEAT_SWITCHES void Context::prepare(StackSpan stack, Entry entry, void* argument) noexcept {
  exceptions_ = {};  // a context whose stack was taken over was not discarded
  stack_ = stack;
  entry_ = entry;
  argument_ = argument;
#if defined(LEAT_ASAN)
  asan_fake_stack_ = nullptr;  // a previous owner's, which has ended
  // Clears the red zones of the previous owner's frames that never returned (its entry function).
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

LEAT_SWITCHES void Context::exit_to(Context& to, ExceptionState* thread) noexcept {
  jump(to, thread, true);
  std::abort();  // there was a switch back to a context that had ended
}

}  // namespace leat
