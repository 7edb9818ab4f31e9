// The thread that shows what a prefetcher does (feeder/live.h).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "leat/feeder/live.h"
#include "leat/feeder/live/rows.h"
#include "leat/feeder/live/screen.h"

namespace leat::feeder {

/// Shows, from its construction to its destruction, which shows once more. A plain thread: the
/// program may be all in virtual time, and a fiber that sleeps would hide a deadlock.
class LiveView {
 public:
  LiveView(const Live& live, LiveSource source);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

 private:
  void run();

  LiveScreen screen_;
  LiveRows rows_;

  std::mutex mutex_;  // of is_over_ alone
  std::condition_variable wake_;
  bool is_over_ = false;
  std::thread thread_;  // the last: it uses all of these
};

}  // namespace leat::feeder
