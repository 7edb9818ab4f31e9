// How an all-reduce is measured, by every contestant alike: the median of batches of operations,
// one behind the other, in place, of fp32. A sum of zeros, which any number of operations leaves as
// it is; then one of numbers, which is checked.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace peer {

/// The median over at most 64 batches of `n` operations; what is left over counts for none.
class Batches {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Batches(std::int64_t n) : size_(std::max<std::int64_t>(1, n / 64)), left_(size_) {
    nanoseconds_.reserve(static_cast<std::size_t>(n / size_));
  }
  /// Begins; again: what was before does not count.
  void begin() {
    start_ = last_ = Clock::now();
    left_ = size_;
    nanoseconds_.clear();
  }
  /// One more operation has ended.
  void end_operation() {
    if (--left_ > 0) return;
    const Clock::time_point now = Clock::now();
    nanoseconds_.push_back(std::chrono::duration<double, std::nano>(now - last_).count() /
                           static_cast<double>(size_));
    last_ = now;
    left_ = size_;
  }
  /// Of an operation.
  [[nodiscard]] double median() {
    std::sort(nanoseconds_.begin(), nanoseconds_.end());
    return nanoseconds_[nanoseconds_.size() / 2];
  }
  /// From begin() to the end of the last whole batch.
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(last_ - start_).count();
  }

 private:
  const std::int64_t size_;
  std::int64_t left_;
  Clock::time_point start_, last_;
  std::vector<double> nanoseconds_;
};

/// Rank `rank`'s input; sums of few such are exact.
inline float input(int rank, std::size_t i) {
  return static_cast<float>(static_cast<int>(i % 1021) + rank);
}

inline void fill(int rank, float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = input(rank, i);
}

inline bool is_sum(int ranks, const float* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<float>(ranks);
    if (data[i] != n * input(0, i) + n * (n - 1) / 2) return false;
  }
  return true;
}

/// One way to sum `data` over the ranks, each of which has made it in the same order.
struct Algorithm {
  std::string name;
  std::function<void()> all_reduce;
};
using Algorithms = std::function<std::vector<Algorithm>(float* data, std::size_t count)>;

/// Measures one process's part of all sizes, and prints rank 0's: a line for each size, of its
/// bytes, the nanoseconds of an operation, and the algorithm that was the fastest.
/// Arguments: ranks, seconds for a size, sizes in bytes.
class Measurement {
 public:
  Measurement(int rank, int ranks, Algorithms make)
      : rank_(rank), ranks_(ranks), make_(std::move(make)), share_(make_(&shared_, 1).front()) {}

  int run(int argc, char** argv) {
    if (argc < 4 || std::atoi(argv[1]) != ranks_) {
      std::fprintf(stderr, "there are %d ranks; arguments: RANKS SECONDS BYTES...\n", ranks_);
      return 2;
    }
    for (int i = 3; i < argc; ++i) {
      if (!measure(std::strtoull(argv[i], nullptr, 10), std::atof(argv[2]))) {
        std::fprintf(stderr, "wrong result on rank %d of %s bytes\n", rank_, argv[i]);
        return 1;
      }
    }
    return 0;
  }

 private:
  // Rank 0's value, on all ranks.
  std::int64_t agree(std::int64_t value) {
    constexpr std::int64_t kExact = 1 << 24;  // of a float
    shared_ = rank_ == 0 ? static_cast<float>(std::clamp(value, -kExact, kExact)) : 0;
    share_.all_reduce();
    return static_cast<std::int64_t>(shared_);
  }

  // n operations, on all ranks.
  static Batches done(const Algorithm& algorithm, std::int64_t n) {
    Batches batches(n);
    batches.begin();
    for (std::int64_t i = 0; i < n; ++i) {
      algorithm.all_reduce();
      batches.end_operation();
    }
    return batches;
  }

  // How many operations take so long, at least about.
  std::int64_t number_for(const Algorithm& algorithm, double seconds) {
    for (std::int64_t n = 1;;) {
      const double taken = done(algorithm, n).seconds();
      const double factor = seconds / std::max(taken, 1e-9);
      const auto enough = static_cast<std::int64_t>(std::ceil(static_cast<double>(n) * factor));
      const std::int64_t next = agree(factor < 10 ? -enough : 10 * n);
      if (next <= 0) return std::max<std::int64_t>(1, -next);
      n = next;
    }
  }

  bool measure(std::size_t bytes, double seconds) {
    std::vector<float> data(bytes / sizeof(float));
    const std::vector<Algorithm> algorithms = make_(data.data(), data.size());
    std::size_t best = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      algorithms[i].all_reduce();  // connections, buffers
      const std::int64_t n = number_for(algorithms[i], seconds);
      if (n > most) best = i;
      most = std::max(n, most);
    }
    Batches batches = done(algorithms[best], most);
    if (rank_ == 0) {
      std::printf("%zu %.9g %s\n", bytes, batches.median(), algorithms[best].name.c_str());
      std::fflush(stdout);
    }
    fill(rank_, data.data(), data.size());
    algorithms[best].all_reduce();
    return is_sum(ranks_, data.data(), data.size());
  }

  const int rank_;
  const int ranks_;
  const Algorithms make_;
  float shared_ = 0;
  const Algorithm share_;
};

}  // namespace peer
