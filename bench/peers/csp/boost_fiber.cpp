// The problems of bench/csp in Boost.Fiber, with its own channels and schedulers: round_robin for
// one worker, work_stealing for more.

#include <atomic>
#include <bit>
#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "problems.h"

namespace {

namespace fibers = boost::fibers;
using fibers::channel_op_status;
using peer::Clock;
using peer::Time;

struct Peer {
  static constexpr bool kFifo = true;

  /// Capacities are powers of two, of which one slot stays empty: the smallest with enough room.
  template <class T>
  class Stream {
   public:
    explicit Stream(std::int64_t capacity)
        : values_(std::bit_ceil(static_cast<std::size_t>(capacity) + 1)) {}
    template <class V>
    bool send(V&& value) {
      return values_.push(std::forward<V>(value)) == channel_op_status::success;
    }
    T recv() {
      T value;
      recv(value);
      return value;
    }
    bool recv(T& value) { return values_.pop(value) == channel_op_status::success; }
    bool try_recv(T& value) { return values_.try_pop(value) == channel_op_status::success; }

   private:
    fibers::buffered_channel<T> values_;
  };

  template <class T>
  class Rendezvous {
   public:
    template <class V>
    bool send(V&& value) {
      return values_.push(std::forward<V>(value)) == channel_op_status::success;
    }
    T recv() {
      T value;
      recv(value);
      return value;
    }
    bool recv(T& value) { return values_.pop(value) == channel_op_status::success; }
    void close() { values_.close(); }

   private:
    fibers::unbuffered_channel<T> values_;
  };

  /// Of any capacity.
  template <class T>
  class Channel {
   public:
    explicit Channel(std::int64_t capacity) {
      if (capacity == 0) {
        rendezvous_ = std::make_unique<Rendezvous<T>>();
      } else {
        buffered_ = std::make_unique<Stream<T>>(capacity);
      }
    }
    template <class V>
    void send(V&& value) {
      if (buffered_) {
        buffered_->send(std::forward<V>(value));
      } else {
        rendezvous_->send(std::forward<V>(value));
      }
    }
    T recv() { return buffered_ ? buffered_->recv() : rendezvous_->recv(); }
    bool try_recv(T& value) { return buffered_->try_recv(value); }

   private:
    std::unique_ptr<Stream<T>> buffered_;
    std::unique_ptr<Rendezvous<T>> rendezvous_;
  };

  class Tasks {
   public:
    template <class F>
    void go(F body) {
      fibers_.emplace_back(std::move(body));
    }
    void wait() {
      for (fibers::fiber& fiber : fibers_) fiber.join();
      fibers_.clear();
    }

   private:
    std::vector<fibers::fiber> fibers_;
  };

  static void sleep_for(std::chrono::nanoseconds length) { boost::this_fiber::sleep_for(length); }
};

Time ring(std::int64_t n) {
  constexpr std::size_t kFibers = 1000;
  n = peer::round_up(n, kFibers);
  std::vector<Peer::Rendezvous<std::uint64_t>> links(kFibers);
  Peer::Tasks tasks;
  std::uint64_t token = 0;
  const auto start = Clock::now();
  for (std::size_t i = 0; i + 1 < kFibers; ++i) {
    tasks.go([&in = links[i], &out = links[i + 1]] {
      for (std::uint64_t value = 0; in.recv(value);) out.send(value + 1);
      out.close();
    });
  }
  for (std::int64_t i = 0; i < n; i += kFibers) {
    links.front().send(token + 1);
    token = links.back().recv();
  }
  const auto elapsed = Clock::now() - start;
  links.front().close();
  tasks.wait();
  peer::check(token == static_cast<std::uint64_t>(n));
  return {n, elapsed};
}

/// Ends by a last value, not by close(), which crashes where fibers wait to send (1.74).
Time sieve(std::int64_t n, std::size_t primes) {
  std::uint64_t prime = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<Peer::Rendezvous<std::uint64_t>> links(primes + 1);
    std::atomic<bool> enough{false};
    Peer::Tasks tasks;
    tasks.go([&] {
      for (std::uint64_t candidate = 2; !enough; ++candidate) links[0].send(candidate);
      links[0].send(peer::kLast);
    });
    for (std::size_t k = 0; k < primes; ++k) {
      prime = links[k].recv();
      tasks.go([&in = links[k], &out = links[k + 1], prime] {
        std::uint64_t candidate = 0;
        while ((candidate = in.recv()) != peer::kLast) {
          if (candidate % prime != 0) out.send(candidate);
        }
        out.send(candidate);
      });
    }
    enough = true;
    while (links[primes].recv() != peer::kLast) {
    }
    tasks.wait();
  }
  const auto elapsed = Clock::now() - start;
  peer::check(prime == (primes == 500 ? 3571 : 17389));
  return {n, elapsed};
}

std::map<std::string, double> parked() {
  constexpr int kFibers = 100'000;
  Peer::Rendezvous<std::uint64_t> gate;
  Peer::Tasks tasks;
  std::atomic<int> arrived{0};
  std::atomic<int> left{0};
  const double before = peer::resident();
  for (int i = 0; i < kFibers; ++i) {
    tasks.go([&] {
      ++arrived;
      std::uint64_t value = 0;
      gate.recv(value);
      ++left;
    });
    if (i % 256 == 0) boost::this_fiber::yield();
  }
  while (arrived < kFibers) boost::this_fiber::yield();
  boost::this_fiber::sleep_for(std::chrono::milliseconds(10));
  const double after = peer::resident();
  peer::check(left == 0);
  gate.close();
  tasks.wait();
  peer::check(left == kFibers);
  return {{"bytes", (after - before) / kFibers}};
}

/// A thread without work sleeps; otherwise it would look for some all the time, which makes every
/// problem here slower, most of them several times.
constexpr bool kSleep = true;

/// Calls f on a fiber that any of `workers` threads may run, of which the calling one is one.
template <class F>
auto on_workers(int workers, F f) {
  decltype(f()) result;
  const auto run = [&] { fibers::fiber([&] { result = f(); }).join(); };
  if (workers == 1) {
    run();
    return result;
  }
  fibers::mutex mutex;
  fibers::condition_variable_any ended;
  bool done = false;
  std::vector<std::thread> others;
  for (int i = 1; i < workers; ++i) {
    others.emplace_back([&] {
      fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(workers, kSleep);
      std::unique_lock lock(mutex);
      ended.wait(lock, [&] { return done; });
    });
  }
  fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(workers, kSleep);
  run();
  {
    const std::unique_lock lock(mutex);
    done = true;
  }
  ended.notify_all();
  for (std::thread& other : others) other.join();
  return result;
}

peer::Problems problems(int /*workers*/) {
  peer::Problems all = peer::bounded_channel_problems<Peer>();
  all.timed["ChanSync"] = peer::chan_sync<Peer>;
  peer::add_spawn<Peer>(all, {256, 1'000});
  all.timed["Ring/1000"] = ring;
  for (const std::size_t primes : {500, 2'000}) {
    all.timed["Sieve/" + std::to_string(primes)] = [=](std::int64_t n) { return sieve(n, primes); };
  }
  all.counted["Parked/100000"] = parked;
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const int workers = argc > 2 ? std::atoi(argv[2]) : 1;
  return on_workers(workers, [&] { return peer::main(argc, argv, problems); });
}
