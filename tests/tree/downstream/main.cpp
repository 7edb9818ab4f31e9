// A user's program: only the installed headers and leat::leat.
#include <chrono>
#include <cstdio>
#include <optional>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"

int main() {
  using namespace std::chrono_literals;
  const int sum = leat::run([] {
    leat::Channel<int> numbers(2, "numbers");
    leat::go([out = leat::Sender(numbers)] {
      for (int i = 1; i <= 10; ++i) out.send(i);
      out.close();
    });
    int total = 0;
    bool open = true;
    while (open) {
      leat::select(leat::on_recv(numbers,
                                 [&](std::optional<int> number) {
                                   open = number.has_value();
                                   total += number.value_or(0);
                                 }),
                   leat::on_timeout(10s, [&] { open = false; }));
    }
    return total;
  });
  std::printf("%d\n", sum);
  return sum == 55 ? 0 : 1;
}
