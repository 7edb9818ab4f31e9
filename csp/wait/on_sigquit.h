// What a running program tells when it gets SIGQUIT (Ctrl-\): what its fibers do, for one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace leat {

/// While one lives, SIGQUIT makes a thread of its own call `f`, which may do what a signal handler
/// may not; the handler only wakes that thread. An exception of `f` is told on stderr. Several may
/// live at a time: each is called. The destructor calls `f` for signals that came before, and that
/// of the last one restores the previous handler. The constructor throws leat::Error if no thread
/// can be started.
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
