// A step with servers on a modelled link in virtual time: the times of a loop over events that
// shares no code with the library, and bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "bench/comm/step.h"
#include "leat/csp/clock.h"
#include "tests/comm/exact/instances.h"
#include "tests/comm/exact/reference.h"

namespace leat::reference {
namespace comm_server_step_test {

using comm::Policy;
using Time = std::int64_t;

constexpr Time kNever = std::numeric_limits<Time>::max();

struct Piece {
  std::size_t layer = 0;
  Time bytes = 0;
  Time since = 0;  // when the line that it is queued for could have taken it
};

/// alpha + s/B, to the nearest nanosecond.
Time time_of(const Step& step, Time bytes) {
  __extension__ using Wide = __int128;
  const Wide nanoseconds =
      (Wide{2} * bytes * 1'000'000'000 + step.bandwidth) / (Wide{2} * step.bandwidth);
  return step.alpha + static_cast<Time>(nanoseconds);
}

std::vector<Piece> pieces_of(const Step& step, std::size_t layer) {
  const Time whole = std::max<Time>(step.partition / step.element(), 1) * step.element();
  std::vector<Piece> pieces;
  for (Time left = step.bytes[layer]; left > 0; left -= pieces.back().bytes) {
    pieces.push_back({.layer = layer, .bytes = std::min(left, whole)});
  }
  return pieces;
}

/// What all pieces of a layer take on a line.
Time line_time(const Step& step, std::size_t layer) {
  Time sum = 0;
  for (const Piece& one : pieces_of(step, layer)) sum += time_of(step, one.bytes);
  return sum;
}

/// When the backward of a layer has run on a worker.
Time ready_at(const Step& step, std::size_t worker, std::size_t layer) {
  const std::vector<Time>& times = step.backward[worker];
  return std::accumulate(times.begin() + static_cast<std::ptrdiff_t>(layer), times.end(), Time{0});
}

/// One direction between the worker and the server.
class OneWay {
 public:
  explicit OneWay(const Step& step) : step_(step) {}

  void queue(Piece piece, Time now) {
    piece.since = now;
    queued_.push_back(piece);
  }
  /// Removes a piece that has arrived by now.
  bool arrive(Time now, Piece& piece) {
    if (flying_.empty() || flying_.front().end > now) return false;
    piece = flying_.front().piece;
    bytes_ -= piece.bytes;
    flying_.pop_front();
    return true;
  }
  /// Sends what the policy and the credit allow.
  void depart(Time now) {
    while (!queued_.empty()) {
      // Those of a layer stand in their order. At one instant, fifo takes the last layer.
      const auto first = std::ranges::min_element(queued_, [&](const Piece& a, const Piece& b) {
        if (step_.policy == Policy::kPriority) return a.layer < b.layer;
        return a.since != b.since ? a.since < b.since : a.layer > b.layer;
      });
      if (!flying_.empty() && bytes_ + first->bytes > step_.credit) return;
      free_at_ = std::max(free_at_, now) + time_of(step_, first->bytes);
      bytes_ += first->bytes;
      flying_.push_back({*first, free_at_});
      queued_.erase(first);
    }
  }
  [[nodiscard]] Time next() const { return flying_.empty() ? kNever : flying_.front().end; }

 private:
  struct Flying {
    Piece piece;
    Time end = 0;
  };
  const Step& step_;
  std::vector<Piece> queued_;
  std::deque<Flying> flying_;
  Time bytes_ = 0;
  Time free_at_ = 0;
};

/// When the forward of the last layer ends, of one worker and one server.
Time simulate_pair(const Step& step) {
  OneWay push(step);
  OneWay pull(step);
  std::vector<Time> done(step.layers());
  for (std::size_t i = 0; i < step.layers(); ++i) done[i] = ready_at(step, 0, i);  // if it is empty
  Time before = -1;
  for (Time now = 0; now != kNever;) {
    for (Piece piece; push.arrive(now, piece);) pull.queue(piece, now);
    for (Piece piece; pull.arrive(now, piece);) done[piece.layer] = now;
    for (std::size_t i = 0; i < step.layers() && before < now; ++i) {
      if (ready_at(step, 0, i) != now) continue;
      for (const Piece& one : pieces_of(step, i)) push.queue(one, now);
    }
    push.depart(now);
    pull.depart(now);
    before = now;
    now = std::min(push.next(), pull.next());
    for (std::size_t i = 0; i < step.layers(); ++i) {
      const Time ready = ready_at(step, 0, i);
      if (ready > before) now = std::min(now, ready);
    }
  }
  Time time = ready_at(step, 0, 0);
  const Time all_done = *std::ranges::max_element(done);
  for (std::size_t i = 0; i < step.layers(); ++i) {
    time = std::max(time, step.synchronous ? all_done : done[i]) + step.forward[0][i];
  }
  return time;
}

std::vector<Time> run(const Step& step, int servers) {
  bench::StepInstance instance = to_instance(step);
  instance.servers = servers;
  std::vector<Time> times;
  for (const Duration time : bench::run_step(instance)) times.push_back(time.count());
  return times;
}

/// Any step whose pieces take time: at one instant, then, a line takes one piece.
Step any_server_step(std::uint32_t seed, std::size_t most_workers) {
  Step step = any_step(seed, seed % 2 == 0 ? Policy::kFifo : Policy::kPriority);
  if (step.backward.size() > most_workers) {
    step.backward.resize(most_workers);
    step.forward.resize(most_workers);
  }
  step.synchronous = seed % 10 >= 8;
  for (std::size_t i = 0; i < step.layers(); ++i) {
    for (const Piece& one : pieces_of(step, i)) {
      if (time_of(step, one.bytes) == 0) step.alpha = 1;
    }
  }
  return step;
}

// A sanitizer looks at what runs, which a few instances have run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kInstances = 30;
#else
constexpr std::uint32_t kInstances = 1'000;
#endif

/// Calls check(step, seed) for each instance.
template <class Check>
void for_instances(std::size_t most_workers, const Check& check) {
  for (std::uint32_t seed = 0; seed < kInstances && !testing::Test::HasFailure(); ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << "seed " << seed);
    check(any_server_step(seed, most_workers), seed);
  }
}

/// ByteScheduler's figure: three layers of b = f = 2 and t = 3, 6, 3 each way.
Step figure(Policy policy, Time partition) {
  return {.backward = {{2, 2, 2}},
          .forward = {{2, 2, 2}},
          .bytes = {3, 6, 3},
          .bandwidth = 1'000'000'000,
          .partition = partition,
          .credit = 1,
          .policy = policy,
          .buckets = {}};
}

TEST(CommServerStep, ByteSchedulersFigureTakesItsTimes) {
  const auto expect = [](Policy policy, Time partition, Time time) {
    EXPECT_EQ(run(figure(policy, partition), 1), std::vector<Time>{time});
    EXPECT_EQ(simulate_pair(figure(policy, partition)), time);
  };
  expect(Policy::kFifo, 6, 26);
  expect(Policy::kFifo, 1, 21);
  expect(Policy::kPriority, 6, 26);
  expect(Policy::kPriority, 1, 18);
}

TEST(CommServerStep, OneWorkerAndOneServerTakeTheTimeOfTheLoopOverEvents) {
  for_instances(1, [](const Step& step, std::uint32_t) {
    ASSERT_EQ(run(step, 1), std::vector<Time>{simulate_pair(step)});
  });
}

// Pushes share the worker's outgoing line, whoever serves. Pulls share its incoming one, which is
// never idle while a piece waits: when the last one ends does not depend on their order.
TEST(CommServerStep, ASynchronousStepOfOneWorkerTakesAsLongWithSeveralServers) {
  for_instances(1, [](Step step, std::uint32_t seed) {
    step.synchronous = true;
    ASSERT_EQ(run(step, 2 + static_cast<int>(seed % 3)), std::vector<Time>{simulate_pair(step)});
  });
}

/// What no schedule is faster than, of a worker: before the forward of layer k, all pieces of
/// layers 0 to k come in by its pull queue, one after the other, none of which is updated before
/// all workers have run the backward of its layer, and it was pushed.
Time lower_bound(const Step& step, std::size_t worker) {
  const std::vector<Time>& forward = step.forward[worker];
  Time least = ready_at(step, worker, 0) + std::accumulate(forward.begin(), forward.end(), Time{0});
  Time pulls = 0;
  Time shortest = kNever;
  for (std::size_t k = 0; k < step.layers(); ++k) {
    Time ready = 0;
    for (std::size_t w = 0; w < step.backward.size(); ++w) {
      ready = std::max(ready, ready_at(step, w, k));
    }
    pulls += line_time(step, k);
    for (const Piece& one : pieces_of(step, k)) {
      shortest = std::min(shortest, time_of(step, one.bytes));
    }
    if (pulls == 0) continue;
    const auto from = forward.begin() + static_cast<std::ptrdiff_t>(k);
    least = std::max(least, std::accumulate(from, forward.end(), ready + shortest + pulls));
  }
  return least;
}

/// What no schedule is faster than with one server: all gradients of all workers for layers 0 to k
/// come in by its pull queue, then a piece goes to the worker.
Time lower_bound_of_server(const Step& step, std::size_t worker) {
  const std::vector<Time>& forward = step.forward[worker];
  Time least = 0;
  Time pushes = 0;
  Time shortest = kNever;
  for (std::size_t k = 0; k < step.layers(); ++k) {
    Time first = kNever;
    for (std::size_t w = 0; w < step.backward.size(); ++w) {
      first = std::min(first, ready_at(step, w, k));
    }
    pushes += static_cast<Time>(step.backward.size()) * line_time(step, k);
    for (const Piece& one : pieces_of(step, k)) {
      shortest = std::min(shortest, time_of(step, one.bytes));
    }
    if (pushes == 0) continue;
    const auto from = forward.begin() + static_cast<std::ptrdiff_t>(k);
    least = std::max(least, std::accumulate(from, forward.end(), first + pushes + shortest));
  }
  return least;
}

/// Once all backwards have run, a line carries a piece until all have been pushed and pulled: at
/// worst one line at a time.
Time upper_bound(const Step& step, std::size_t worker) {
  Time ready = 0;
  for (std::size_t w = 0; w < step.backward.size(); ++w) {
    ready = std::max(ready, ready_at(step, w, 0));
  }
  Time lines = 0;
  for (std::size_t i = 0; i < step.layers(); ++i) lines += line_time(step, i);
  const std::vector<Time>& forward = step.forward[worker];
  return std::accumulate(forward.begin(), forward.end(),
                         ready + 2 * static_cast<Time>(step.backward.size()) * lines);
}

TEST(CommServerStep, SeveralWorkersAndServersStayBetweenTheBounds) {
  for_instances(4, [](const Step& step, std::uint32_t seed) {
    const int servers = 1 + static_cast<int>(seed / 2 % 4);
    const std::vector<Time> times = run(step, servers);
    ASSERT_EQ(times.size(), step.backward.size());
    for (std::size_t w = 0; w < times.size(); ++w) {
      ASSERT_GE(times[w], lower_bound(step, w));
      if (servers == 1) {
        ASSERT_GE(times[w], lower_bound_of_server(step, w));
      }
      ASSERT_LE(times[w], upper_bound(step, w));
    }
    if (seed % 10 == 0) {
      ASSERT_EQ(times, run(step, servers)) << "again";
    }
  });
}

}  // namespace comm_server_step_test
}  // namespace leat::reference
