// A user's plug-in, with a Leat of its own where Leat is static.
#include <optional>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"

extern "C" [[gnu::visibility("default")]] int receive() {
  return leat::run([] {
    leat::Channel<int> numbers(0, "numbers");
    leat::go([out = leat::Sender(numbers)] { out.send(55); });
    return numbers.recv().value_or(0);
  });
}

using Function = void (*)();
extern "C" [[gnu::visibility("default")]] Function whose_yield() { return &leat::yield; }
