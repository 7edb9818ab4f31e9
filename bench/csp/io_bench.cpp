// What waits for descriptors cost: a byte that goes to and fro between two fibers over a pair of
// sockets, and descriptors to which nothing comes while others are at work.
//
// The argument is the number of workers. An operation is one round trip.

#include "leat/csp/io.h"

#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <vector>

#include "bench/csp/leat_peer.h"
#include "bench/csp/measure.h"
#include "leat/csp/task_group.h"

namespace {

using bench::check;
using bench::measure;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class Sockets {
 public:
  Sockets() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()) != 0) fail("socketpair");
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets() {
    for (const int end : ends_) close(end);
  }
  int operator[](std::size_t end) const { return ends_[end]; }

 private:
  std::array<int, 2> ends_{};
};

void put(int fd, std::uint8_t ball) {
  if (write(fd, &ball, 1) != 1) fail("write");
}

void readable(benchmark::State& state) {
  measure(state, state.range(0), [&](std::int64_t n) {
    const Sockets sockets;
    std::uint8_t ball = 0;
    const auto take = [](int fd) {
      std::uint8_t taken = 0;
      leat::select(leat::on_readable(fd));
      if (read(fd, &taken, 1) != 1) fail("read");
      return taken;
    };
    leat::TaskGroup other;
    while (state.KeepRunningBatch(n)) {
      other.go([&] {
        for (std::int64_t i = 0; i < n; ++i) {
          put(sockets[1], static_cast<std::uint8_t>(take(sockets[1]) + 1));
        }
      });
      for (std::int64_t i = 0; i < n; ++i) {
        put(sockets[0], ball);
        ball = take(sockets[0]);
      }
    }
    other.wait();
    check(state, ball == static_cast<std::uint8_t>(n));
  });
}

BENCHMARK(readable)->Name("Readable")->Apply(bench::one_and_two_workers);

/// What values cost to and fro between two fibers: the least of some short runs, since others of
/// this machine disturb few of them.
double least_channel_ping_pong() {
  double least = 1e9;
  for (int i = 0; i < 31; ++i) {
    const std::chrono::duration<double> length = peer::chan_sync<bench::LeatPeer>(10'000).elapsed;
    least = std::min(least, length.count());
  }
  return least;
}

/// Counter: what a channel costs two fibers while others wait for 10,000 descriptors to which
/// nothing comes, as a multiple of what it costs without, in turns.
void idle_descriptors(benchmark::State& state) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr auto kAllWait = std::chrono::milliseconds(100);
  std::array<double, 2> least = {1e9, 1e9};  // without, with
  measure(state, state.range(0), [&](std::int64_t n) {
    const Sockets sockets;
    std::vector<int> copies(10'000);
    for (int& copy : copies) {
      if ((copy = dup(sockets[0])) < 0) fail("dup");
    }
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; ++i) {
        leat::sleep_for(kAllWait);  // as below, since it slows what follows
        least[0] = std::min(least[0], least_channel_ping_pong());
        leat::TaskGroup idle;
        for (const int fd : copies) idle.go([fd] { leat::await_readable(fd); });
        leat::sleep_for(kAllWait);
        least[1] = std::min(least[1], least_channel_ping_pong());
        put(sockets[1], 0);
        idle.wait();
        std::uint8_t taken = 0;
        if (read(sockets[0], &taken, 1) != 1) fail("read");
      }
    }
    for (const int fd : copies) close(fd);
  });
  state.counters["ratio"] = least[1] / least[0];
}
BENCHMARK(idle_descriptors)
    ->Name("IdleDescriptors")
    ->Iterations(7)
    ->Apply(bench::one_and_two_workers);

}  // namespace
