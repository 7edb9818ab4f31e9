// The protocol of ./README.md, for peers in C++: arguments, repetition, checks, output. bench/csp
// has the checks from here, too.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace peer {

using Clock = std::chrono::steady_clock;

/// What n operations took, where a few more than were asked for may have been done.
struct Time {
  std::int64_t n;
  Clock::duration elapsed;
};

using Problem = std::function<Time(std::int64_t n)>;
/// Done once; has other results than a time.
using Count = std::function<std::map<std::string, double>()>;

struct Problems {
  std::map<std::string, Problem> timed;
  std::map<std::string, Count> counted;
};

inline void check(bool right) {
  if (!right) throw std::runtime_error("wrong result");
}

/// Values that have to arrive as 0, 1, 2, ...
class InOrder {
 public:
  void add(std::uint64_t value) noexcept { wrong_ |= value ^ next_++; }
  [[nodiscard]] bool are(std::int64_t n) const noexcept {
    return wrong_ == 0 && next_ == static_cast<std::uint64_t>(n);
  }

 private:
  std::uint64_t next_ = 0;
  std::uint64_t wrong_ = 0;
};

/// The first and the last word of items, both of which have to.
class EndsInOrder {
 public:
  void add(std::uint64_t first, std::uint64_t last) noexcept {
    firsts_.add(first);
    lasts_.add(last);
  }
  [[nodiscard]] bool are(std::int64_t n) const noexcept { return firsts_.are(n) && lasts_.are(n); }

 private:
  InOrder firsts_;
  InOrder lasts_;
};

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

constexpr std::uint64_t sum_below(std::int64_t n) {
  const auto count = static_cast<std::uint64_t>(n);
  return count * (count - 1) / 2;
}

/// The compiler must take `value` for read and changed.
template <class T>
void opaque(T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

/// Every step needs the one before it: no compiler makes it shorter.
inline std::uint64_t compute(std::uint64_t x, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

/// What n jobs give whose numbers are 1, 2, 3, 4, 1, ...
inline std::uint64_t computed(std::int64_t n, std::int64_t steps) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    sum += static_cast<std::uint64_t>((n - i + 3) / 4) *
           compute(static_cast<std::uint64_t>(i + 1), steps);
  }
  return sum;
}

/// Bytes of memory that this process occupies.
inline double resident() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Rss:" && file >> kib) return kib * 1024;
  }
  throw std::runtime_error("there is no Rss in /proc/self/smaps_rollup");
}

/// n is raised as Google Benchmark does, until n operations take `seconds`.
inline void repeat(const Problem& problem, double at_least) {
  for (std::int64_t n = 1;;) {
    const Time time = problem(n);
    const double seconds = std::chrono::duration<double>(time.elapsed).count();
    if (seconds >= at_least) {
      std::printf("ns %.9g\n", seconds * 1e9 / static_cast<double>(time.n));
      return;
    }
    const double factor = seconds > at_least / 10 ? at_least * 1.4 / seconds : 10;
    n = static_cast<std::int64_t>(static_cast<double>(time.n) * factor) + 1;
  }
}

/// A peer's main: make(workers) are the problems that it can express.
template <class Make>
int main(int argc, char** argv, Make make) {
  const Problems problems = make(argc > 2 ? std::atoi(argv[2]) : 1);
  if (argc < 4) {
    for (const auto& [name, problem] : problems.timed) std::puts(name.c_str());
    for (const auto& [name, problem] : problems.counted) std::puts(name.c_str());
    return 0;
  }
  if (const auto found = problems.counted.find(argv[1]); found != problems.counted.end()) {
    for (const auto& [name, value] : found->second()) std::printf("%s %.9g\n", name.c_str(), value);
    return 0;
  }
  const auto found = problems.timed.find(argv[1]);
  if (found == problems.timed.end()) {
    std::fprintf(stderr, "no such problem: %s\n", argv[1]);
    return 2;
  }
  repeat(found->second, std::atof(argv[3]));
  return 0;
}

}  // namespace peer
