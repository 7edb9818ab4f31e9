// Boost fibers that are guests, and what they exchange.
#pragma once

#include <boost/fiber/fiber.hpp>
#include <utility>
#include <vector>

#include "leat/csp/boost_fiber.h"
#include "leat/csp/channel.h"

namespace leat::support {

/// Sum of 0 .. count - 1.
constexpr long sum_below(long count) { return count * (count - 1) / 2; }

/// Boost fibers of the thread that makes it; all are joined at the end.
class Guests {
 public:
  template <class F>
  void go(F body) {
    fibers_.emplace_back(std::move(body));
  }
  void join() {
    for (boost::fibers::fiber& one : std::exchange(fibers_, {})) one.join();
  }
  Guests() = default;
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;
  ~Guests() { join(); }

 private:
  const BoostFiberGuests known_;
  std::vector<boost::fibers::fiber> fibers_;
};

inline void send_all(const Sender<int>& out, int from, int to) {
  for (int i = from; i < to; ++i) out.send(i);
}

inline long receive_all(const Receiver<int>& in) {
  long sum = 0;
  for (const int value : in) sum += value;
  return sum;
}

}  // namespace leat::support
