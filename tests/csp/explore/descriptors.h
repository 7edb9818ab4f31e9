// Small programs for csp/io/descriptor_table.h, and a simulation of the kernel under it: its
// descriptors, and epoll's one-shot registrations of the files behind them.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "leat/csp/base/os_thread.h"
#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/io/descriptor_table.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/csp/explore/scenarios.h"

namespace leat::scenarios {

/// One number for descriptors, and two files, of which it has one or none. A file that has lost it
/// is open still, by a copy. Fibers wait by arm() and the wait's channel; one thread delivers.
class SimulatedKernel final : public DescriptorTable {
 public:
  static constexpr int kNumber = 3;

  SimulatedKernel() : thread_([this] { run(); }) {}
  ~SimulatedKernel() override { end(); }
  void end() {
    {
      const SpinLockGuard guard(state_);
      ending_ = true;
    }
    static_cast<void>(bell_.try_send(0));
    thread_.join();
  }

  /// Makes the file ready for `events`, or no more.
  void set(std::size_t file, std::uint32_t events) {
    {
      const SpinLockGuard guard(state_);
      files_[file].ready = events;
    }
    static_cast<void>(bell_.try_send(0));
  }
  [[nodiscard]] bool is_ready(std::size_t file, std::uint32_t events) {
    const SpinLockGuard guard(state_);
    return (files_[file].ready & events) != 0;
  }
  /// close(2) of the number, and open(2) that gives it to another file.
  void reuse(std::optional<std::size_t> file) {
    const SpinLockGuard guard(state_);
    open_ = file;
  }

 protected:
  int control(int operation, int /*descriptor*/, std::uint32_t events,
              std::uint64_t key) noexcept override {
    {
      const SpinLockGuard guard(state_);
      if (!open_) return EBADF;
      File& file = files_[*open_];
      if (file.registered == (operation == EPOLL_CTL_ADD)) {
        return file.registered ? EEXIST : ENOENT;
      }
      file.registered = operation != EPOLL_CTL_DEL;
      file.armed = file.registered ? events & ~std::uint32_t{EPOLLONESHOT} : 0;
      file.key = key;
    }
    static_cast<void>(bell_.try_send(0));
    return 0;
  }
  int close(int /*descriptor*/) noexcept override {
    const SpinLockGuard guard(state_);
    if (!open_) return EBADF;
    open_.reset();
    return 0;
  }

 private:
  struct File {
    std::uint32_t ready = 0;
    bool registered = false;
    std::uint32_t armed = 0;
    std::uint64_t key = 0;
  };
  struct Event {
    std::uint64_t key;
    std::uint32_t events;
  };

  // Between the two, an event is on its way.
  std::optional<Event> harvest() {
    const SpinLockGuard guard(state_);
    for (File& file : files_) {
      if ((file.ready & file.armed) == 0) continue;
      const Event event{file.key, file.ready & file.armed};
      file.armed = 0;
      return event;
    }
    return std::nullopt;
  }
  void run() {
    for (;;) {
      while (const std::optional<Event> event = harvest()) deliver(event->key, event->events);
      {
        const SpinLockGuard guard(state_);
        if (ending_) return;
      }
      bell_.recv();
    }
  }

  SpinLock state_;
  std::array<File, 2> files_;
  std::optional<std::size_t> open_ = 0;
  bool ending_ = false;
  const Channel<int> bell_{1, "the kernel has something new"};
  SimulatedThread thread_;
};

/// A wait that is armed while it lives.
class ArmedWait {
 public:
  explicit ArmedWait(SimulatedKernel& kernel, std::uint32_t events = EPOLLIN)
      : kernel_(kernel), wait_(SimulatedKernel::kNumber, events) {
    arm();
  }
  ArmedWait(const ArmedWait&) = delete;
  ArmedWait& operator=(const ArmedWait&) = delete;
  ~ArmedWait() {
    if (armed_) kernel_.disarm(wait_);
  }
  void arm() {
    armed_ = true;
    kernel_.arm(wait_, Closings::here().count());
  }
  /// Waits for the token. Whether the wait has ended without an error.
  bool recv() {
    wait_.channel.recv();
    armed_ = false;
    return wait_.error == nullptr;
  }
  bool has_token() {
    std::optional<DescriptorReady> token;
    return wait_.channel.try_recv(token) == ChannelStatus::ok && wait_.error == nullptr;
  }
  [[nodiscard]] const Channel<DescriptorReady>& channel() const { return wait_.channel; }

 private:
  SimulatedKernel& kernel_;
  DescriptorWait wait_;
  bool armed_ = false;
};

/// Each is woken for its own direction, and none is forgotten.
inline void both_directions() {
  const OutsideWork thread;
  SimulatedKernel kernel;
  TaskGroup group;
  group.go([&] {
    ArmedWait wait(kernel, EPOLLIN);
    require(wait.recv() && kernel.is_ready(0, EPOLLIN), "readable");
  });
  group.go([&] {
    ArmedWait wait(kernel, EPOLLOUT);
    require(wait.recv() && kernel.is_ready(0, EPOLLOUT), "writable");
  });
  yield();  // both wait, if there is one worker
  kernel.set(0, EPOLLIN);
  kernel.set(0, EPOLLIN | EPOLLOUT);
  group.wait();
}

/// What the first wait was armed for is gone when the next begins; the event may be on its way.
inline void event_of_an_earlier_wait() {
  const OutsideWork thread;
  SimulatedKernel kernel;
  Channel<int> stop(1);
  ArmedWait kept(kernel);
  stop.send(0);
  SimulatedThread peer([&] { kernel.set(0, EPOLLIN); });
  select(on_recv(stop), on_recv(kept.channel()));  // one or the other
  peer.join();
  kernel.set(0, 0);
  kept.arm();
  ArmedWait other(kernel);
  yield();
  require(!kept.has_token() && !other.has_token(), "nothing is ready");
  kernel.set(0, EPOLLIN);
  require(kept.recv() && other.recv(), "both");
}

/// The number goes to another file, without close_descriptor().
inline void reused_number() {
  const OutsideWork thread;
  SimulatedKernel kernel;
  TaskGroup group;
  std::optional<ArmedWait> before(std::in_place, kernel);
  group.go([&] { static_cast<void>(before->recv()); });   // by either file's event, or the error
  SimulatedThread peer([&] { kernel.set(0, EPOLLIN); });  // of the file before
  kernel.reuse(1);
  ArmedWait after(kernel);
  group.wait();  // at the latest, the arming above has ended it
  peer.join();
  require(!after.has_token(), "the other file is not ready");
  kernel.set(1, EPOLLIN);
  require(after.recv(), "it is ready");
}

/// A wait that was armed, and is destroyed, is not in the table any more; its event comes later.
inline void destroyed_while_armed() {
  const OutsideWork thread;
  SimulatedKernel kernel;
  ArmedWait other(kernel, EPOLLOUT);
  SimulatedThread peer([&] { kernel.set(0, EPOLLIN); });
  std::optional<ArmedWait> wait(std::in_place, kernel);
  const Channel<DescriptorReady> channel = wait->channel();
  wait.reset();
  std::optional<DescriptorReady> token;
  static_cast<void>(channel.try_recv(token));
  peer.join();
  kernel.set(0, EPOLLIN | EPOLLOUT);
  require(other.recv(), "it is ready");
  require(channel.try_recv(token) != ChannelStatus::ok, "it was destroyed");
}

/// A wait ends by an event or by an error, or does not begin.
inline void closed_under_way() {
  const OutsideWork thread;
  SimulatedKernel kernel;
  TaskGroup group;
  for (int i = 0; i < 2; ++i) {
    group.go([&] {
      try {
        ArmedWait wait(kernel);
        require(!wait.recv(), "nothing was ready");
      } catch (const Error&) {
      }
    });
  }
  yield();  // as above
  require(kernel.close_and_tell(SimulatedKernel::kNumber) == 0, "closed");
  group.wait();
}

}  // namespace leat::scenarios
