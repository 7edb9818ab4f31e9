// The thread that owns MPI: it makes every call of MPI, and drives all groups.
//
// Always true:
//  - Fibers and threads leave what they want in inbox_, and ring. Nothing else is shared.
//  - An operation ends only after a later look at the headers that found none. A rank that fails
//    tells the others before it gives memory back, or goes on; so what was read from memory that
//    was given back is not taken for a result, and a failure that was told before is seen first.
//  - Once stopped_, the thread makes no call of MPI any more, not even MPI_Finalize. Neither does
//    anything else of Leat.
//  - A process has one engine, and never destroys it: after a failure MPI still has addresses of
//    its memory.
//
// What the thread does when there is nothing to do: it looks at once, then gives the CPU away
// between looks for kYields, then sleeps between looks, for a sixteenth of the time that nothing
// came, at most 1 ms: about 1 % of a CPU. When no operation is under way here and no exchange
// listens, it sleeps until it is called.
//
// Lock       | guards  | held while calling
// inbox_lock_| inbox_  | the allocation of a longer list
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "leat/comm/transports/mpi/group.h"
#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/mpi/wire.h"
#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/notification.h"
#include "leat/csp/wait/futex.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat::comm::mpi {

/// Thrown on MPI's thread when the world has failed: nothing of MPI may be called any more.
struct Stopped {};

/// What the watchdog asks about an operation that is late.
struct Question {
  Operation operation;
  std::vector<int> missing;  // ranks of MPI's world
  int peer = -1;             // of a send or recv, in MPI's world
  Notification answered;
};

/// The process's one engine.
class Engine {
 public:
  explicit Engine(const OpenOptions& options) : options_(options) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() = delete;

  /// Starts the thread, which initialises MPI. Waits for the other ranks, until the deadline.
  /// Throws Error.
  void start();
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Lets the thread begin its work, for `world` (null: there is none).
  void serve(const std::shared_ptr<World>& world);

  // ---- from any fiber and thread

  /// `operation` is pending; operation.state is its group.
  void submit(Operation& operation) noexcept;
  void post(Group& group, int to, std::span<const Notice> notices);
  void listen(std::shared_ptr<Group> group, const Channel<Notice>& notices);
  void leave(std::shared_ptr<Group> group);
  void ask(std::shared_ptr<Question> question);
  /// World::stop().
  void stop(const Failure& failure, bool tell) noexcept;
  /// The world ends, perhaps on MPI's thread: nobody waits in stop() any more, nor will.
  void world_ends() noexcept;
  /// The process, or its use of MPI, ends: says goodbye, waits for that of the others, until the
  /// deadline, and finalises MPI if Leat initialised it. Without failure.
  void end() noexcept;

  // ---- on MPI's thread

  [[nodiscard]] Wire& wire() noexcept { return *wire_; }
  /// `operation` has its data. It ends after the look at the headers. `read_memory`: data came from
  /// another rank's memory, not with headers.
  void finish(Operation& operation, bool read_memory) {
    finished_.push_back({&operation, read_memory});
  }
  [[noreturn]] void fail(Failure failure, bool tell = true);
  /// A rank of MPI's world has done something.
  void hear(int rank) noexcept;
  /// The one of `ranks` that has done nothing for longest.
  [[nodiscard]] int most_silent(std::span<const int> ranks) const noexcept;

 private:
  struct Posted {
    Group* group;
    int to;
    Notice notice;
  };
  struct Request {
    std::shared_ptr<Group> group;
    std::optional<Channel<Notice>> listener;  // none: leave
  };
  struct Inbox {
    Operation* first = nullptr;
    Operation* last = nullptr;
    std::vector<Posted> posted;
    std::vector<Request> requests;
    std::vector<std::shared_ptr<Question>> questions;
    const Failure* failure = nullptr;
    bool tell = false;
    bool ends = false;
  };
  struct Finished {
    Operation* operation;
    bool read_memory;
  };
  struct Early {
    int from;
    Header header;
    std::vector<std::byte> data;
  };
  enum Word : std::uint32_t { kAwake, kRung, kAsleep };
  // Of turns without work, the number that do not sleep between looks.
  static constexpr int kSpins = 20;
  static constexpr int kYields = 400;
  static constexpr int kYieldsWhenIdle = 20;

  [[nodiscard]] bool is_here() const noexcept { return std::this_thread::get_id() == thread_; }
  void ring() noexcept;
  void run();
  void work();
  [[nodiscard]] bool turn();
  void rest(int quiet_turns);
  [[nodiscard]] bool take_inbox();
  void send_notices();
  void know(Group& group);
  void received(const Message& message);
  void end_finished(bool all);
  void forget_groups();
  void tell_failure(const Failure& failure) noexcept;
  void halt(const Failure& failure, bool tell) noexcept;
  [[nodiscard]] bool try_end();

  const OpenOptions options_;
  int rank_ = -1;
  int size_ = 0;
  std::exception_ptr error_;  // of the start
  Notification ready_;
  Notification served_;  // world_ and serving_ are set
  Notification halted_;  // the thread makes no more calls
  std::atomic<std::thread::id> thread_ = {};

  Atomic<std::uint32_t> word_{kAwake};
  SpinLock inbox_lock_;
  Inbox inbox_ LEAT_GUARDED_BY(inbox_lock_);
  bool world_ended_ LEAT_GUARDED_BY(inbox_lock_) = false;

  // MPI's thread's.
  std::optional<Wire> wire_;
  std::weak_ptr<World> world_;
  World* serving_ = nullptr;  // while an operation is under way
  Inbox taken_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Group>> groups_;
  std::unordered_map<std::uint64_t, std::vector<Early>> early_;
  std::vector<std::shared_ptr<Group>> leaving_;  // left, but not yet by all
  std::vector<Finished> finished_;
  std::vector<Notice> batch_;
  std::uint64_t under_way_ = 0;
  int listeners_ = 0;
  bool is_failing_ = false;
  bool stopped_ = false;
  bool ends_ = false;
  std::vector<TimePoint> heard_;
  std::vector<char> said_goodbye_;
  int goodbyes_ = 0;
  TimePoint quiet_since_ = {};
};

}  // namespace leat::comm::mpi
