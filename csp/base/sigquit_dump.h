// Makes SIGQUIT print what the fibers of a running program are doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace leat {

/// While one lives, SIGQUIT makes a thread print what `describe` returns to stderr. The signal
/// handler only wakes that thread. Several may live at a time: each one prints. The destructor of
/// the last one restores the previous handler. The constructor throws std::system_error if no
/// thread can be started.
class SigquitDump {
 public:
  [[nodiscard]] explicit SigquitDump(std::function<std::string()> describe);
  ~SigquitDump();
  SigquitDump(const SigquitDump&) = delete;
  SigquitDump& operator=(const SigquitDump&) = delete;

 private:
  void run() const noexcept;

  const std::function<std::string()> describe_;
  const std::uint32_t first_;  // number of signals before construction
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace leat
