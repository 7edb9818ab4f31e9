// SIGQUIT asks a running program what its fibers are doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace leat {

/// While one lives, SIGQUIT makes a thread print what `describe` returns to stderr. The signal's
/// handler does no more than wake that thread. Several may live at a time: each prints. The last
/// one puts back the handler that was there before. Throws std::system_error where there is no
/// thread.
class SigquitDump {
 public:
  explicit SigquitDump(std::function<std::string()> describe);
  ~SigquitDump();
  SigquitDump(const SigquitDump&) = delete;
  SigquitDump& operator=(const SigquitDump&) = delete;

 private:
  void run() const noexcept;

  const std::function<std::string()> describe_;
  const std::uint32_t first_;  // signals before this lived
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace leat
