// The processes that train together, and the sum over all of them that they exchange: what NCCL or
// MPI does in earnest, in as few lines as it takes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

namespace trainer {

/// One process's connections with the others: rank 0 with each, and each with rank 0.
class Peers {
 public:
  /// Forks count - 1 processes; returns in every one. To be called before there is any other thread
  /// and before CUDA is used: neither survives a fork. Throws std::system_error.
  explicit Peers(std::size_t count);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  ~Peers();

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Replaces each value by its sum over all processes, added up in the order of their ranks: it
  /// has the same bits everywhere. All have to call it, with equally many. Blocks the thread.
  /// Throws leat::Error if another process has ended.
  void sum(std::span<float> values) const;
  void sum(std::span<double> values) const;
  /// Breaks the connections, and in rank 0 waits for the other processes. Returns `status`, or that
  /// of the first that failed where it is 0.
  [[nodiscard]] int leave(int status) noexcept;

 private:
  template <class Number>
  void sum_all(std::span<Number> values) const;

  std::size_t rank_ = 0;
  std::size_t count_;
  std::vector<int> sockets_;   // rank 0: to rank i + 1; others: to rank 0
  std::vector<pid_t> others_;  // rank 0
};

}  // namespace trainer
