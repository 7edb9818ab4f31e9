// Two fibers and a channel: a producer that waits when it is two values ahead, a consumer, and
// select with a timeout.

#include <chrono>
#include <cstdio>
#include <optional>

#include "examples/written.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

using namespace std::chrono_literals;

int main() {
  // [hello]
  leat::run([] {
    leat::Channel<int> squares(2, "squares");
    leat::go([out = leat::Sender(squares)] {
      for (int i = 1; i <= 5; ++i) out.send(i * i);  // waits when two are buffered
      out.close();
    });
    for (int& square : squares) std::printf("%d ", square);

    leat::Channel<int> silence(0, "silence");
    leat::select(leat::on_recv(silence, [](std::optional<int>) { std::puts("never"); }),
                 leat::on_timeout(10ms, [] { std::puts("and silence"); }));
  });
  // [/hello]
  return if_written(0);
}
