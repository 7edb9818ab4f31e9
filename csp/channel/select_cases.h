// How select() performs its cases: the half that knows their types. The other half is
// select_core.cpp. Of the cases in select.h it uses
//
// | case                | members                                           |
// |---------------------|---------------------------------------------------|
// | every one           | kIsChannelCase                                    |
// | RecvCase, SendCase  | channel, would_block, describe, try_or_wait, act  |
// | DescriptorCase      | likewise; begin                                   |
// | DeadlineCase        | deadline, handler                                 |
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "leat/csp/base/cycles.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"

namespace leat {

/// True if C, a case or a reference to one, is an operation on a channel.
template <class C>
inline constexpr bool kOnChannel = std::remove_cvref_t<C>::kIsChannelCase;

/// How many of the cases are operations on channels.
template <class... Cases>
inline constexpr std::size_t kChannelCases = (std::size_t{0} + ... +
                                              std::size_t{kOnChannel<Cases>});

/// Calls f(one, place) for each of the cases, in the order of the arguments.
template <class F, class... Cases>
[[gnu::always_inline]] inline void for_each_case(F&& f, Cases&... cases) {
  [[maybe_unused]] int place = 0;
  (f(cases, place++), ...);
}

/// Calls f(one) for the case at `chosen`.
template <class F, class... Cases>
[[gnu::always_inline]] inline void visit_case(int chosen, F&& f, Cases&... cases) {
  for_each_case(
      [&](auto& one, int place) {
        if (place == chosen) f(one);
      },
      cases...);
}

/// Completes the channel operation at `chosen`, which was performed as `done`. Returns `chosen`.
template <class... Cases>
int act_on(int chosen, const Case& done, Cases&... cases) {
  visit_case(
      chosen,
      [&](auto& one) {
        if constexpr (kOnChannel<decltype(one)>) one.act(done);
      },
      cases...);
  return chosen;
}
/// Runs the handler of the deadline at `chosen`. Returns `chosen`.
template <class... Cases>
int act_on_deadline(int chosen, Cases&... cases) {
  visit_case(
      chosen,
      [](auto& one) {
        if constexpr (!kOnChannel<decltype(one)>) one.handler();
      },
      cases...);
  return chosen;
}

/// The earliest deadline of the cases, and its place; -1 if none of them is a deadline.
struct EarliestDeadline {
  Deadline deadline = Deadline::never();
  int place = -1;
};
template <class... Cases>
EarliestDeadline earliest_deadline(const Cases&... cases) noexcept {
  EarliestDeadline earliest;
  for_each_case(
      [&](const auto& one, int place) {
        if constexpr (!kOnChannel<decltype(one)>) {
          if (earliest.place < 0 || one.deadline.at() < earliest.deadline.at()) {
            earliest = {one.deadline, place};
          }
        }
      },
      cases...);
  return earliest;
}

/// A select with one channel operation. Returns the place of the chosen case.
template <class... Cases>
__attribute__((noinline)) int select_one(Cases&... cases) {
  const EarliestDeadline earliest = earliest_deadline(cases...);
  Case operation;
  int chosen = -1;
  for_each_case(
      [&](auto& one, int place) {
        if constexpr (kOnChannel<decltype(one)>) {
          if (one.try_or_wait(operation, earliest.deadline) >= 0) chosen = place;
        }
      },
      cases...);
  return chosen < 0 ? act_on_deadline(earliest.place, cases...)
                    : act_on(chosen, operation, cases...);
}

/// A select that looks at all its channels at one instant, and waits if none is ready. `polled`:
/// none of them was ready a moment ago.
template <class... Cases>
__attribute__((noinline)) int select_together(bool polled, Cases&... cases) {
  constexpr std::size_t kCount = kChannelCases<Cases...>;
  std::array<Case, kCount> operations;
  std::array<int, kCount> places{};  // of each operation among the arguments
  [[maybe_unused]] std::size_t used = 0;
  for_each_case(
      [&](auto& one, int place) {
        if constexpr (kOnChannel<decltype(one)>) {
          one.describe(operations[used]);
          places[used++] = place;
        }
      },
      cases...);
  const EarliestDeadline earliest = earliest_deadline(cases...);
  const int outcome = polled ? select_cases_locked(operations, earliest.deadline)
                             : select_cases(operations, earliest.deadline);
  if (outcome < 0) return act_on_deadline(earliest.place, cases...);
  const auto done = static_cast<std::size_t>(outcome);
  return act_on(places[done], operations[done], cases...);
}

/// A case of a descriptor: it may be ready when other fibers have run.
template <class C>
concept LooksAgain = requires(C& one) {
  one.begin(Deadline::now());
};

/// Lets other fibers run, and returns true, if a descriptor may then be ready at little cost. (In
/// csp/io/watch.cpp.) `since`: when the wait first looked; 0 before.
bool look_again(Cycles& since, Deadline deadline);

/// Tells the cases of descriptors that a select begins, and that it gives up at `deadline`.
template <class... Cases>
[[gnu::always_inline]] inline void begin_select(Deadline deadline, Cases&... cases) {
  for_each_case(
      [&](auto& one, int) {
        if constexpr (LooksAgain<decltype(one)>) one.begin(deadline);
      },
      cases...);
}

/// A select with several channel operations among at most 64 cases. If one of them is ready, takes
/// it without describing all of them.
template <class... Cases>
int select_several(Cases&... cases) {
  constexpr bool kLooksAgain = (LooksAgain<Cases> || ...);
  [[maybe_unused]] Cycles since = 0;
  for (;;) {
    std::uint64_t ready = 0;  // by place
    std::size_t count = 0;
    bool known = true;
    for_each_case(
        [&](const auto& one, int place) {
          if constexpr (kOnChannel<decltype(one)>) {
            known = known && one.channel().has_caller();
            if (!one.would_block()) {
              ready |= std::uint64_t{1} << static_cast<unsigned>(place);
              ++count;
            }
          }
        },
        cases...);
    if (!known) return select_together(false, cases...);
    const Deadline at_once =
        earliest_deadline(cases...).deadline.is_now() ? Deadline::now() : Deadline::now_of_wait();
    for (; count > 0; --count) {
      std::uint64_t rest = ready;
      for (std::size_t skip = count > 1 ? choose_case(count) : 0; skip > 0; --skip)
        rest &= rest - 1;
      const int chosen = std::countr_zero(rest);
      Case operation;
      bool done = false;
      visit_case(
          chosen,
          [&](auto& one) {
            if constexpr (kOnChannel<decltype(one)>) {
              done = one.try_or_wait(operation, at_once) >= 0;
            }
          },
          cases...);
      if (done) return act_on(chosen, operation, cases...);
      ready &= ~(std::uint64_t{1} << static_cast<unsigned>(chosen));
    }
    if constexpr (kLooksAgain) {
      if (look_again(since, earliest_deadline(cases...).deadline)) continue;
    }
    return select_together(true, cases...);
  }
}

/// The place of an otherwise() that can be chosen without a closer look, because the one channel
/// operation, a receive, would block; -1 if a closer look is needed. A send that does not happen
/// has taken the lock: see try_send().
template <class... Cases>
int otherwise_at_once(const Cases&... cases) noexcept {
  int otherwise_place = -1;
  bool would_block = false;
  for_each_case(
      [&](const auto& one, int place) {
        if constexpr (kOnChannel<decltype(one)>) {
          would_block = one.kDirection == Case::Direction::kRecv && one.would_block() &&
                        one.channel().has_caller();
        } else if (otherwise_place < 0 && one.deadline.is_now()) {
          otherwise_place = place;
        }
      },
      cases...);
  return would_block ? otherwise_place : -1;
}

}  // namespace leat
