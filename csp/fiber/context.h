// An execution context: a stack and where to continue on it.
//
// What is Boost.Context's is in context_jump.h and context.cpp. Always true:
//  - a Context is current on at most one thread; switch_to is called on the current one;
//  - what runs after a switch may run on another thread than what ran before it: nothing that hangs
//    on the thread (errno, thread-locals) survives.
#pragma once

#include <cstddef>

#include "leat/csp/wait/sanitizers.h"

namespace leat {

/// Memory for a stack: [low, low + size); grows downwards from the end.
struct StackSpan {
  std::byte* low = nullptr;
  std::size_t size = 0;
};

class Context {
 public:
  using Entry = void (*)(void* argument);

  /// What the C++ runtime keeps per thread about exceptions in flight and must follow the fiber:
  /// parking inside a catch block corrupts it otherwise. Layout of __cxa_eh_globals (Itanium ABI).
  struct ExceptionState {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  /// The calling thread's.
  [[nodiscard]] static ExceptionState* exceptions_of_thread() noexcept;

  /// Has no stack yet.
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// Makes this the context of the calling thread's own stack: what a worker switches away from,
  /// and comes back to. Also on any stack that is not the one it was prepared with.
  void adopt_current_thread() noexcept;
  /// Makes this a fresh context that will call entry(argument) on `stack` when first switched to.
  /// `entry` must not return: it ends with exit_to.
  void prepare(StackSpan stack, Entry entry, void* argument) noexcept;
  /// Nobody will switch here any more; may be prepared anew.
  void discard() noexcept;
  /// Makes this the context that is current on the stack of `ended`, which is no more.
  void take_over_from(Context& ended) noexcept;

  [[nodiscard]] const StackSpan& stack() const noexcept { return stack_; }

  /// Saves the current execution in *this and continues `to`. Returns when somebody switches back.
  /// `thread` is exceptions_of_thread(), which costs too much to be asked for at every switch.
  void switch_to(Context& to, ExceptionState* thread) noexcept { jump(to, thread, false); }
  /// As switch_to, for the last time: nobody may switch back.
  [[noreturn]] void exit_to(Context& to, ExceptionState* thread) noexcept;

 private:
  void jump(Context& to, ExceptionState* thread, bool last) noexcept;
  void arrive(void* transfer_data, void* from_registers) noexcept;
  struct Boost;  // the functions whose signatures need Boost's types

  void* registers_ = nullptr;  // Boost's fcontext_t, valid while this context is not current
  ExceptionState exceptions_;
  StackSpan stack_;  // a worker's own stack: learned at the first switch away, for ASan
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
#if defined(LEAT_ASAN)
  void* asan_fake_stack_ = nullptr;
#endif
#if defined(LEAT_TSAN)
  void* tsan_fiber_ = nullptr;
  bool owns_tsan_fiber_ = false;
#endif
};

}  // namespace leat
