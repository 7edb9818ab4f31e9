// Ranks that are late: an error on every rank, at the deadline.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"

namespace leat::comm {
namespace local_deadline_test {

using namespace std::chrono_literals;
using leat::support::elapsed;

OpenOptions with_deadline(Duration deadline) {
  OpenOptions options;
  options.deadline = deadline;
  return options;
}

void expect_late(const std::function<void()>& f, int peer,
                 std::initializer_list<std::string_view> parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const CommMismatch& error) {
    ADD_FAILURE() << error.what();
  } catch (const CommError& error) {
    EXPECT_EQ(error.peer(), peer);
    leat::support::expect_contains(error.what(), parts);
  }
}

TEST(LocalDeadline, ALateRankIsAnErrorOnAllOthersExactlyAtTheDeadline) {
  support::in_virtual_time(3, with_deadline(10s), [](Communicator& me) {
    me.barrier().await();
    std::vector<float> data(5);
    if (me.rank() == 1) {
      sleep_until(TimePoint(1h));
      EXPECT_THROW(me.all_reduce(data).await(), CommError);  // it is told, too
      EXPECT_EQ(elapsed(), 1h);
      return;
    }
    if (me.rank() == 0) sleep_for(3s);
    expect_late([&] { me.all_reduce(data).await(); }, 1,
                {"all_reduce of 5 float32 (number 1)", "waits for rank 1 ", "10 s"});
    EXPECT_EQ(elapsed(), 10s);  // rank 2 has called at 0 s
  });
}

TEST(LocalDeadline, OfAMessageNamesThePeer) {
  support::rank_places()[0].run(2, with_deadline(500ms), [](Communicator& me) {
    std::vector<float> data(5);
    if (me.rank() == 1) return sleep_until(TimePoint(1h));
    expect_late([&] { me.recv(data, 1, 7).await(); }, 1,
                {"recv of 5 float32 (key 7) from rank 1", "waits for rank 1 ", "500 ms"});
    EXPECT_EQ(elapsed(), 500ms);
  });
}

TEST(LocalDeadline, AllLateRanksAreNamedAndTheFirstIsThePeer) {
  support::rank_places()[0].run(5, with_deadline(10s), [](Communicator& me) {
    if (me.rank() != 1) return sleep_until(TimePoint(1h));
    expect_late([&] { me.barrier().await(); }, 0, {"waits for ranks 0 and 2 to 4 "});
  });
}

TEST(LocalDeadline, AnOperationThatTheLinkTakesTooLongForIsLateAndNobodyIsToBlame) {
  OpenOptions options = with_deadline(1s);
  options.link = {.bandwidth = 1, .enabled = true};
  support::rank_places()[0].run(2, options, [](Communicator& me) {
    std::vector<float> data(5);
    expect_late([&] { me.all_reduce(data).await(); }, -1, {"all_reduce of 5 float32", "takes"});
    EXPECT_EQ(elapsed(), 1s);
  });
}

TEST(LocalDeadline, InRealTimeARankThatWaitsGetsItToo) {
  for (const std::size_t place : {2U, 3U}) {
    const Channel<int> failed(1);
    support::rank_places()[place].run(2, with_deadline(20ms), [&](Communicator& me) {
      if (me.rank() == 1) {
        static_cast<void>(failed.recv());
        EXPECT_THROW(me.barrier().await(), CommError);
        return;
      }
      expect_late([&] { me.barrier().await(); }, 1, {"waits for rank 1 "});
      failed.send(0);
    });
  }
}

}  // namespace local_deadline_test
}  // namespace leat::comm
