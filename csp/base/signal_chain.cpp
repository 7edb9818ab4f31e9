#include "leat/csp/base/signal_chain.h"

#include <dlfcn.h>

namespace leat {
namespace {

void keep_loaded(SignalHandler handler) noexcept {
  Dl_info module = {};
  if (dladdr(reinterpret_cast<void*>(handler), &module) == 0) return;
  // Null for the program itself, which is never unloaded.
  dlopen(module.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

bool install_in_front(int signal, SignalHandler handler, struct sigaction& previous) noexcept {
  keep_loaded(handler);
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  // Two calls, so that `previous` is set when the handler runs for the first time.
  return sigaction(signal, nullptr, &previous) == 0 && sigaction(signal, &action, nullptr) == 0;
}

// Fibers that take turns on a thread share its signal stack. To ThreadSanitizer each fiber is a
// thread, so it would report a race.
__attribute__((no_sanitize("thread"))) void pass_on(const struct sigaction& previous, int signal,
                                                    siginfo_t* info, void* context) noexcept {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler == SIG_IGN && was_sent(*info)) return;
  if (previous.sa_handler != SIG_IGN && previous.sa_handler != SIG_DFL) {
    previous.sa_handler(signal);
    return;
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigemptyset(&standard.sa_mask);
  sigaction(signal, &standard, nullptr);
  if (was_sent(*info)) raise(signal);  // otherwise the instruction runs again, and faults again
}

}  // namespace leat
