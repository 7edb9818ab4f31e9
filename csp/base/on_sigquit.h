// Reports by a running program that gets SIGQUIT (Ctrl-\), for instance on what its fibers do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace leat {

/// While one lives, SIGQUIT makes its thread call `f`. `f` may do what a signal handler may not:
/// the handler only wakes that thread. An exception of `f` is reported on stderr. Several may live
/// at a time: each calls its `f`. The destructor calls `f` for earlier signals; the last destructor
/// restores the previous handler. The constructor throws leat::Error if it cannot start a thread.
class OnSigquit {
 public:
  [[nodiscard]] explicit OnSigquit(std::function<void()> f);
  ~OnSigquit();
  OnSigquit(const OnSigquit&) = delete;
  OnSigquit& operator=(const OnSigquit&) = delete;

 private:
  void run() const noexcept;

  const std::function<void()> f_;
  const std::uint32_t first_;  // number of signals before construction
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace leat
