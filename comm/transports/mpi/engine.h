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
// listens, it sleeps until it is called, but looks every eighth of the deadline, at least every
// 100 ms, whether another rank asks what this one waits for.
//
// Lock       | guards  | held while calling
// inbox_lock_| inbox_  | the allocation of a longer list
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "leat/comm/transports/mpi/group.h"
#include "leat/comm/transports/mpi/message.h"
#include "leat/comm/transports/mpi/wire.h"
#include "leat/comm/transports/operation.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/home_process.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/notification.h"

namespace leat::comm::mpi {

/// Thrown on MPI's thread when the world has failed: nothing of MPI may be called any more.
struct Stopped {};

/// The process's one engine.
class Engine {
 public:
  explicit Engine(const OpenOptions& options) : options_(options) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() = delete;

  /// Starts the thread, which initialises MPI. Throws as start_thread(); then MPI was not touched.
  void start();
  /// Waits until MPI is initialised, at most until the deadline: MPI waits for the other ranks.
  /// Throws Error.
  void wait_for_mpi();
  [[nodiscard]] int rank() const noexcept { return wire_->rank(); }
  /// The ranks of MPI's world.
  [[nodiscard]] const std::vector<int>& everyone() const noexcept { return everyone_; }
  /// Lets the thread begin its work, for `world` (null: there is none).
  void serve(const std::shared_ptr<World>& world);

  // ---- from any fiber and thread

  /// Lets the thread do `what`, after earlier calls. Without effect once the world fails.
  void call(std::function<void()> what);
  /// `operation` is pending; operation.state is its group, which has joined.
  void submit(Operation& operation);
  void join(std::shared_ptr<Group> group);
  /// Lets the group send notices. Allocates nothing after warm-up.
  void post(const std::shared_ptr<Group>& group, int to, std::span<const Notice> notices);
  /// World::stop().
  void stop(const Failure& failure, bool tell) noexcept;
  /// The world ends, perhaps on MPI's thread: nobody waits in stop() any more, nor will.
  void world_ends() noexcept;
  /// The process, or its use of MPI, ends: says goodbye, waits for the others' goodbyes until the
  /// deadline, and finalises MPI if Leat initialised it. Without failure. Without effect in a child
  /// process, which has MPI's memory, but none of its threads.
  void end() noexcept;

  // ---- on MPI's thread

  [[nodiscard]] Wire& wire() noexcept { return *wire_; }
  /// The group of that context, if it has joined and is not over; else null.
  [[nodiscard]] Group* find(std::uint64_t context) const noexcept;
  /// `operation` has its data. It ends after the look at the headers. `read_memory`: data came from
  /// another rank's memory, not with headers.
  void finish(Operation& operation, bool read_memory) {
    finished_.push_back({&operation, read_memory});
  }
  [[noreturn]] void fail(Failure failure, bool tell = true);
  /// World::ask().
  void ask(const Wait& asked, std::shared_ptr<Inquiry> inquiry, std::size_t question);
  [[nodiscard]] bool is_here() const noexcept { return std::this_thread::get_id() == thread_; }

 private:
  struct Posted {
    std::shared_ptr<Group> group;
    int to;
    Notice notice;
  };
  struct Inbox {
    std::vector<std::function<void()>> calls;
    std::vector<Posted> posted;  // before the calls
    const Failure* failure = nullptr;
    bool tell = false;
  };
  struct Finished {
    Operation* operation;
    bool read_memory;
  };
  // A rank of MPI's world.
  struct Peer {
    bool said_goodbye = false;
    std::optional<int> blames = {};  // its world has failed because of that rank
  };
  struct Open {
    std::uint64_t number;
    int rank;
    std::shared_ptr<Inquiry> inquiry;
    std::size_t question;
  };
  enum Word : std::uint32_t { kAwake, kRung, kAsleep };
  // How many turns without work do not sleep between looks.
  static constexpr int kSpins = 20;
  static constexpr int kYields = 400;
  static constexpr int kYieldsWhenIdle = 20;

  void ring() noexcept;
  void run();
  void work();
  [[nodiscard]] bool turn();
  void rest(int quiet_turns);
  [[nodiscard]] bool take_inbox();
  void send_posted();
  void received(const Message& message);
  void received_question(int from, const Header& header);
  void received_answer(const Message& message);
  [[nodiscard]] std::optional<Answer> last_words(int rank) const;
  void answer_for(int rank);
  void end_finished(bool all);
  void halt(const Failure& failure, bool tell) noexcept;

  const OpenOptions options_;
  const HomeProcess home_;
  std::vector<int> everyone_;
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
  std::unordered_map<std::uint64_t, std::vector<KeptMessage>> early_;  // of no group yet
  std::vector<Notice> batch_;
  std::vector<Finished> finished_;
  std::uint64_t under_way_ = 0;
  bool is_failing_ = false;
  bool stopped_ = false;
  bool ends_ = false;
  std::vector<Peer> peers_;
  std::vector<Open> asked_;
  std::uint64_t questions_ = 0;
  bool was_told_ = false;  // of the failure, by another rank
  TimePoint quiet_since_ = {};
};

}  // namespace leat::comm::mpi
