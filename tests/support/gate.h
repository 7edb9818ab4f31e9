// Holds a stream until it is opened, so that the order of work on a device is proved, not slept
// for.
//
// Example
//   Gate gate(producer);                     // whatever is enqueued on producer now stays queued
//   copied.record(producer);
//   EXPECT_FALSE(copied.is_done());
//   gate.open();
//   copied.sync();
//
// The gate is a host function that waits on a channel. While it is closed, no other host function,
// no kernel and no copy within the device is sure to run, on any stream: a device may run one at a
// time. Copies between host and device do run. Opened by its destructor, so that a failed assertion
// does not hang. Any fiber or thread may open it, more than once.
#pragma once

#include "leat/csp/channel.h"
#include "leat/gpu/stream.h"

namespace leat::support {

class Gate {
 public:
  [[nodiscard]] explicit Gate(const gpu::StreamRef& stream) {
    stream.launch_host([opened = Receiver<Nothing>(opened_)] { static_cast<void>(opened.recv()); });
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() const noexcept { opened_.try_close(); }

 private:
  struct Nothing {};
  const Channel<Nothing> opened_{0, "gate"};
};

}  // namespace leat::support
