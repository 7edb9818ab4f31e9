// A user's program that wants fibers and channels alone.
#include <cstdio>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"

int main() {
  const int received = leat::run([] {
    leat::Channel<int> numbers(0, "numbers");
    leat::go([out = leat::Sender(numbers)] { out.send(55); });
    return numbers.recv().value_or(0);
  });
  std::printf("%d\n", received);
  return received == 55 ? 0 : 1;
}
