// A plug-in with a Leat of its own: see host.cpp.
#include <array>
#include <cstring>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/interop/c/leat.h"
#include "leat/gpu/device.h"

namespace {

// As many bytes of thread-locals as the static CUDA runtime has, which is not in every build.
thread_local std::array<volatile char, 0x3000> t_of_a_runtime{};

}  // namespace

// Uses every part of Leat that has thread-locals. Returns null, or what went wrong.
extern "C" const char* plug_in_work() {
  t_of_a_runtime[0x2fff] = 1;
  const int answer = leat::run([] {
    const leat::Channel<int> c(0);
    leat::go([c] { c.send(42); });
    return c.recv().value_or(0);
  });
  if (answer != 42) return "a channel did not deliver its value";
  if (leat::gpu::open("host").name().empty()) return "the host device has no name";
  if (*leat_error_text() != '\0') return "there is an error's text before the first error";
  if (leat_dataset_size(nullptr, nullptr) != LEAT_ERROR_ARGUMENT) return "null was accepted";
  if (std::strstr(leat_error_text(), "leat_dataset_size") == nullptr) return leat_error_text();
  return nullptr;
}
