// Compiled for its errors: with REFUSE_<WHAT> defined it contains one thing that must not compile,
// without it compiles.
#include <chrono>
#include <memory>
#include <optional>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"

namespace {

struct ThrowsWhenMoved {
  ThrowsWhenMoved() = default;
#if defined(REFUSE_MOVE_THAT_THROWS)
  ThrowsWhenMoved(ThrowsWhenMoved&& /*other*/) noexcept(false) {}
#endif
};

}  // namespace

int main() {
  const leat::Channel<ThrowsWhenMoved> throwing;
  const leat::Channel<int> numbers(0);
  leat::Selector selector;
  selector.add(leat::on_recv(numbers));
  leat::select(leat::on_recv(numbers, [](std::optional<int>) {}), leat::otherwise());
#if defined(REFUSE_TIMEOUT_IN_SELECTOR)
  selector.add(leat::on_timeout(leat::Duration(1)));
#endif
#if defined(REFUSE_OTHERWISE_IN_SELECTOR)
  selector.add(leat::otherwise());
#endif
#if defined(REFUSE_HANDLER_THAT_IGNORES_THE_CLOSE)
  leat::select(leat::on_recv(numbers, [](int) {}));
#endif
#if defined(REFUSE_SHIELD_THAT_ENDS_AT_ONCE)
  leat::Shield();
#endif
#if defined(REFUSE_OUTSIDE_WORK_THAT_ENDS_AT_ONCE)
  leat::OutsideWork();
#endif
#if defined(REFUSE_GROUP_THAT_ENDS_AT_ONCE)
  leat::TaskGroup();
#endif
#if defined(REFUSE_MOVE_ONLY_LVALUE_IN_SELECT)
  const leat::Channel<std::unique_ptr<int>> pointers(0);
  auto pointer = std::make_unique<int>(1);
  leat::select(leat::on_send(pointers, pointer));
#endif
#if defined(REFUSE_DEADLINE_OF_STEADY_CLOCK)
  leat::sleep_until(std::chrono::steady_clock::now() + std::chrono::seconds(1));
#endif
#if defined(REFUSE_STATUS_UNREAD)
  numbers.try_send(1);
#endif
}
