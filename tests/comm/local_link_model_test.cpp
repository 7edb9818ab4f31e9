// The link model in virtual time: the instants at which operations end are exact.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm {
namespace local_link_model_test {

using namespace std::chrono_literals;
using leat::support::elapsed;
using support::in_virtual_time;

constexpr std::size_t kFloats = 1'000;  // 4,000 bytes: 4 us

OpenOptions modelled(LinkModel link = {.bandwidth = 1e9, .alpha = 10us}) {
  link.enabled = true;
  OpenOptions options;
  options.link = link;
  return options;
}

TEST(LocalLinkModel, EachOperationTakesItsTime) {
  in_virtual_time(4, modelled(), [](Communicator& me) {
    std::vector<float> data(kFloats, 1);
    std::vector<float> chunk(kFloats / 4);
    const auto expect_takes = [](Duration length, Completion operation) {
      const TimePoint before = now();
      operation.await();
      EXPECT_EQ(now() - before, length);
    };
    expect_takes(16us, me.all_reduce(data));
    EXPECT_EQ(data, std::vector<float>(kFloats, 4));
    expect_takes(13us, me.reduce_scatter(data, chunk));
    EXPECT_EQ(chunk, std::vector<float>(kFloats / 4, 16));
    expect_takes(13us, me.all_gather(chunk, data));
    expect_takes(14us, me.broadcast(data, 2));
    expect_takes(10us, me.barrier());
    EXPECT_EQ(elapsed(), 66us);
    if (me.rank() == 0) expect_takes(14us, me.send(data, 1));
    if (me.rank() == 1) expect_takes(14us, me.recv(data, 0));
  });
}

TEST(LocalLinkModel, ACollectiveBeginsWhenAllHaveCalledIt) {
  in_virtual_time(3, modelled(), [](Communicator& me) {
    sleep_for(me.rank() * 7us);
    me.barrier().await();
    EXPECT_EQ(elapsed(), 24us);
  });
}

TEST(LocalLinkModel, CollectivesOfAllCommunicatorsShareTheLinkInTheOrderOfTheLastCalls) {
  in_virtual_time(2, modelled(), [](Communicator& me) {
    Communicator other = me.duplicate();
    sleep_until(TimePoint(1ms));
    const auto since = [] { return elapsed() - 1ms; };
    // The first call of the barrier is the first of all; its last one comes later.
    if (me.rank() == 0) {
      Completion barrier = me.barrier();
      sleep_for(1us);
      other.barrier().await();
      EXPECT_EQ(since(), 11us);
      barrier.await();
      EXPECT_EQ(since(), 21us);
    } else {
      sleep_for(1us);
      Completion barrier = other.barrier();
      sleep_for(1us);
      me.barrier().await();
      EXPECT_EQ(since(), 21us);
      barrier.await();
    }
    // What comes once the link is free starts at once.
    sleep_until(TimePoint(2ms));
    me.barrier().await();
    EXPECT_EQ(elapsed(), 2ms + 10us);
  });
}

TEST(LocalLinkModel, ASendBeginsOnceItsRecvIsCalled) {
  in_virtual_time(2, modelled(), [](Communicator& me) {
    std::vector<float> data(kFloats);
    if (me.rank() == 1) sleep_for(5us);
    (me.rank() == 0 ? me.send(data, 1) : me.recv(data, 0)).await();
    EXPECT_EQ(elapsed(), 19us);
  });
}

TEST(LocalLinkModel, TheDirectionsOfAPairAndTheLinkDoNotShareTime) {
  in_virtual_time(2, modelled(), [](Communicator& me) {
    std::vector<float> out(kFloats);
    std::vector<float> in(kFloats);
    const int peer = 1 - me.rank();
    Completion barrier = me.barrier();
    Completion sent = me.send(out, peer);
    Completion received = me.recv(in, peer);
    sent.await();
    received.await();
    EXPECT_EQ(elapsed(), 14us);
    barrier.await();
    EXPECT_EQ(elapsed(), 14us);
  });
}

// 0 to 2 waits for 0's line, and keeps 2's free for 3 meanwhile.
TEST(LocalLinkModel, ASendStartsAsSoonAsBothLinesAreFree) {
  in_virtual_time(4, modelled(), [](Communicator& me) {
    std::vector<float> data(kFloats);
    std::vector<float> more(kFloats);
    if (me.rank() == 0) {
      Completion first = me.send(data, 1);
      sleep_for(1us);
      Completion second = me.send(data, 2);
      first.await();
      EXPECT_EQ(elapsed(), 14us);
      second.await();
      EXPECT_EQ(elapsed(), 30us);
    } else if (me.rank() == 1) {
      me.recv(data, 0).await();
    } else if (me.rank() == 2) {
      Completion first = me.recv(data, 0);
      Completion second = me.recv(more, 3);
      second.await();
      EXPECT_EQ(elapsed(), 16us);
      first.await();
      EXPECT_EQ(elapsed(), 30us);
    } else {
      sleep_for(2us);
      me.send(data, 2).await();
      EXPECT_EQ(elapsed(), 16us);
    }
  });
}

TEST(LocalLinkModel, SendsOfOneLineGoInTheOrderInWhichTheyMet) {
  in_virtual_time(2, modelled(), [](Communicator& me) {
    std::vector<std::vector<float>> data(5, std::vector<float>(kFloats));
    std::vector<Completion> all;
    if (me.rank() == 1) sleep_for(1us);  // all sends wait
    for (std::uint64_t key = 0; key < 5; ++key) {
      // The last recv is called first: its send goes first.
      const std::uint64_t mine = me.rank() == 0 ? key : 4 - key;
      all.push_back(me.rank() == 0 ? me.send(data[key], 1, mine) : me.recv(data[key], 0, mine));
    }
    for (std::uint64_t i = 0; i < 5; ++i) {
      all[me.rank() == 0 ? 4 - i : i].await();
      EXPECT_EQ(elapsed(), 1us + (static_cast<int>(i) + 1) * 14us);
    }
  });
}

TEST(LocalLinkModel, WithoutDataNoMemoryIsTouched) {
  const OpenOptions options = modelled({.bandwidth = 1e9, .alpha = 10us, .moves_data = false});
  in_virtual_time(2, options, [](Communicator& me) {
    constexpr std::uint64_t kMany = std::uint64_t{1} << 36;
    void* const memory = reinterpret_cast<void*>(8);
    const Elements nowhere(memory, kMany, DType::kFloat32);
    const ConstElements from_nowhere(memory, kMany, DType::kFloat32);
    me.all_reduce(nowhere).await();
    EXPECT_EQ(elapsed(), 10us + std::chrono::nanoseconds(kMany * 4));
    (me.rank() == 0 ? me.send(from_nowhere, 1) : me.recv(nowhere, 0)).await();
    EXPECT_EQ(elapsed(), 20us + std::chrono::nanoseconds(kMany * 8));
  });
}

TEST(LocalLinkModel, NoticesTakeDeltaAndKeepTheirOrder) {
  for (const Duration delta : {Duration(0), Duration(3us)}) {
    in_virtual_time(3, modelled({.alpha = 10us, .delta = delta}), [&](Communicator& me) {
      const std::shared_ptr<Transport> end = me.transport();
      const Channel<Notice> notices(8);
      if (me.rank() == 1) {
        sleep_for(1us);
        const std::array<Notice, 2> two = {Notice{.step = 1}, Notice{.step = 2}};
        end->post(0, two);
        sleep_for(1us);
        end->post(0, {two.data(), 1});
      } else if (me.rank() == 2) {
        sleep_for(1us + 500ns);
        const std::array<Notice, 1> one = {Notice{.step = 9}};
        end->post(0, one);
        end->post(2, one);  // to itself
        end->listen(notices);
        EXPECT_EQ(notices.recv().value().from, 2);
        EXPECT_EQ(elapsed(), 1us + 500ns + delta);
      } else {
        end->listen(notices);
        const auto expect_next = [&](int from, std::uint64_t step, Duration posted) {
          const Notice notice = notices.recv().value();
          EXPECT_EQ(notice.from, from);
          EXPECT_EQ(notice.step, step);
          EXPECT_EQ(elapsed(), posted + delta);
        };
        expect_next(1, 1, 1us);
        expect_next(1, 2, 1us);
        expect_next(2, 9, 1us + 500ns);
        expect_next(1, 1, 2us);
      }
      me.barrier().await();
    });
  }
}

TEST(LocalLinkModel, InRealTimeNothingEndsEarlierThanItSays) {
  for (const std::size_t place : {2U, 3U}) {  // threads, and schedulers of their own
    support::rank_places()[place].run(2, modelled({.alpha = 2ms}), [](Communicator& me) {
      std::vector<float> data(kFloats, 1);
      const TimePoint before = now();
      Completion first = me.all_reduce(data);
      Completion second = me.barrier();
      first.await();
      EXPECT_GE(now() - before, 2ms);
      second.await();
      EXPECT_GE(now() - before, 4ms);
      (me.rank() == 0 ? me.send(data, 1) : me.recv(data, 0)).await();
      EXPECT_GE(now() - before, 6ms);
      EXPECT_EQ(data, std::vector<float>(kFloats, 2));
    });
  }
}

// The last operation ends on a fiber of the world, which must not end the world: that fiber would
// wait for itself.
TEST(LocalLinkModel, TheWorldMayEndAsSoonAsItsLastOperationHas) {
  for (int i = 0; i < leat::support::rounds(300); ++i) {
    std::vector<Communicator> one = open("local:1", modelled({}));
    Completion last = one[0].barrier();
    one.clear();
    while (!last.is_done()) yield();
  }
}

}  // namespace local_link_model_test
}  // namespace leat::comm
