// What the communicators of one comm::open() share in this process: the deadline, the failure, the
// scheduler that communication runs on, and the operations that are under way.
//
// Always true:
//  - An operation is pending from add() until one party takes it: the transport, when nothing can
//    fail it any more (take_all), or fail(). The party that takes it calls finished(), once.
//  - The first failure wins. After it nothing becomes pending.
//
// The watchdog is a fiber that looks at the oldest pending operation that is not patient. When that
// operation is `deadline` old, the watchdog finds out who is to blame, and fails the world. It does
// the same for exchanges and servers, which call accuse(). In real time it looks about every
// quarter of the deadline, at most every half second, while operations are begun, and sleeps
// otherwise; so an operation costs no timer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/error.h"
#include "leat/comm/link_model.h"
#include "leat/comm/recorder/flight_recorder.h"
#include "leat/comm/transports/blame.h"
#include "leat/comm/transports/operation.h"
#include "leat/csp/base/on_sigquit.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/bell.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/device.h"

namespace leat::comm {

/// Options of comm::open().
struct OpenOptions {
  /// How long an operation may take, and how late a peer may be, before that is a CommError; more
  /// than 0.
  Duration deadline = std::chrono::minutes(5);
  /// Workers of the scheduler that communication runs on, 1 to 4096. Under a VirtualClock the
  /// caller's scheduler serves instead.
  int threads = 1;
  /// "local" only: how long operations take.
  LinkModel link = {};
  /// "nccl" only: the devices of the ranks of this process, all of them different. Empty: "cuda:0"
  /// and so on; under mpirun, the device with the process's number on its machine.
  std::vector<gpu::Device> devices = {};
  /// "mpi" only: the most bytes that one message carries; at least 1. The lowest of all ranks
  /// counts.
  std::size_t message_limit = std::size_t{1} << 30;
  /// An existing directory, where each rank writes its flight recorder on a CommError and on
  /// SIGQUIT, as rank-<rank>.leat-comm; SIGQUIT then no longer ends the process. Empty: nowhere.
  std::filesystem::path recorder_directory = {};
};

/// The base of each transport's world. Made by std::make_shared.
class World : public std::enable_shared_from_this<World> {
 public:
  /// Ranks [first, first + ranks_here) of `size` live in this process. Throws std::invalid_argument
  /// for an option out of range, and as Scheduler's constructor.
  World(const OpenOptions& options, int size, int first, int ranks_here);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World();

  [[nodiscard]] const OpenOptions& options() const noexcept { return options_; }
  /// Ranks of the whole world.
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether all of them live in this process.
  [[nodiscard]] bool is_in_one_process() const noexcept {
    return recorders_.size() == static_cast<std::size_t>(size_);
  }
  /// The scheduler that communication runs on: one of its own, or, under a VirtualClock, the
  /// scheduler of the fiber that opened the world.
  [[nodiscard]] const std::shared_ptr<SchedulerCore>& scheduler() const noexcept {
    return scheduler_;
  }
  /// The time on that scheduler's clock, on any thread.
  [[nodiscard]] TimePoint time() const noexcept;
  /// Whether that clock is virtual.
  [[nodiscard]] bool is_virtual() const noexcept;
  /// The flight recorder of a rank of this process, by its rank in the world.
  [[nodiscard]] FlightRecorder& recorder(int rank) noexcept;

  // ---- failing. Thread-safe.

  /// Whether the world has failed.
  [[nodiscard]] bool is_dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  /// The failure; only once is_dead(). Does not change.
  [[nodiscard]] const Failure& failure() const noexcept { return *failure_; }
  /// Fails the world, unless it has failed already: stops the transport, writes the recorders,
  /// finishes every pending operation, and tells every listener (kDead). `tell`: the other
  /// processes fail, too. May be called on a fiber, which it may park for some milliseconds,
  /// shielded.
  void fail(Failure failure, bool tell = true) noexcept;
  /// Throws if the world is dead, as rank `rank` of the communicator that was called.
  void require_alive(int rank) const {
    if (is_dead()) throw_failure(rank, failure());
  }

  // ---- who is to blame. Thread-safe.

  /// A wait that is too long.
  struct Accusation {
    Failure failure;            ///< `what` is the beginning of the text
    std::vector<Wait> missing;  ///< whom it waits for
    bool tell = true;           ///< as fail()
    bool only_silent = false;   ///< fails the world only if none of `missing` answers
  };
  /// Finds out who is to blame (find_blame), and fails the world because of that rank. Returns at
  /// once; the watchdog does it.
  void accuse(Accusation accusation);
  /// Finds out what rank `asked.rank`, of this process, waits for, and calls `tell` once, perhaps
  /// before it returns; not if the world fails.
  void ask_here(const Wait& asked, std::function<void(const Answer&)> tell);

  /// Notice::kind of what the world sends to listeners. Not used otherwise.
  enum : std::uint32_t {
    kAsked = ~std::uint32_t{0} - 2,  // call answer()
    kFailed,                         // rank `from` of the world has failed, and this one has not;
                                     // value: 1 + whom it blames, or 0
    kDead,                           // this world has failed
  };
  /// A part of rank `rank` on communicator `context`, which listens to `notices` on a fiber. There
  /// is room for one notice of kind kAsked, one of kind kDead, and one of kind kFailed of each
  /// rank.
  void add_listener(int rank, std::uint64_t context, const Channel<Notice>& notices);
  void remove_listener(const Channel<Notice>& notices) noexcept;
  /// Answers what was asked. `say(asked, is_awaited)` returns what the listener's part waits for;
  /// `is_awaited`: a patient operation of it is.
  void answer(const Channel<Notice>& listener,
              const std::function<Answer(const Wait& asked, bool is_awaited)>& say);
  /// Sends a notice to every listener.
  void tell_listeners(const Notice& notice);

  /// Something that uses operations' memory besides the world's own transport.
  class Companion {
   public:
    Companion() = default;
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;
    virtual ~Companion() = default;
    /// Ends that use, now and later. Called by fail(), once, without a spin lock.
    virtual void stop() noexcept = 0;
  };
  /// Stops it at once if the world fails or has failed.
  void add_companion(Companion& companion);
  /// Once it returns, stop() is not running, and will not be called.
  void remove_companion(Companion& companion) noexcept;

  // ---- operations under way. Thread-safe.

  /// Makes `operation`, of rank `rank` of the world on communicator `context`, pending, and records
  /// it. Returns false if the world fails or has failed: the caller waits for nothing and calls
  /// finish(operation, &failure()).
  [[nodiscard]] bool add(Operation& operation, int rank, std::uint64_t context) noexcept;
  /// Takes all of `operations`, which were added; null ones are skipped. Returns true: none is
  /// pending any more, and the caller calls finish() for each after it has used their memory. Or
  /// returns false if the world fails: fail() finishes them.
  [[nodiscard]] bool take_all(std::span<Operation* const> operations) noexcept;
  [[nodiscard]] bool take(Operation& operation) noexcept {
    Operation* one = &operation;
    return take_all({&one, 1});
  }
  /// Records the end of a taken operation, and calls finished(). `failure`: null, or failure().
  void finish(Operation& operation, const Failure* failure = nullptr) noexcept;

 protected:
  /// Stops all use of operations' memory, now and later, and, if `tell`, tells the other processes.
  /// Called once, without a lock.
  virtual void stop(const Failure& failure, bool tell) noexcept = 0;
  /// Who is missing from an operation, as open() counts.
  struct Missing {
    int peer = -1;           ///< of a send or recv
    std::vector<int> ranks;  ///< that have not called it; none: all have
  };
  /// Given a copy of the operation: it may have ended. Called without a lock.
  [[nodiscard]] virtual Missing missing(const Operation& operation) = 0;
  /// Asks a rank what it waits for; `inquiry` gets the answer. The default is for ranks of this
  /// process.
  virtual void ask(const Wait& asked, std::shared_ptr<Inquiry> inquiry, std::size_t question);
  /// Ends the watchdog, and the scheduler if it is the world's own. Called by the derived class's
  /// destructor first.
  void end() noexcept;

 private:
  void watch();
  void look_into(Accusation& accusation);
  [[nodiscard]] Accusation accusation_of(const Operation& late);
  struct Question;
  struct Asked {
    Wait wait;
    bool is_awaited = false;
    std::shared_ptr<Question> question;
  };
  struct Listener {
    int rank = -1;
    std::uint64_t context = 0;
    Channel<Notice> notices;
    std::vector<Asked> asked = {};
  };
  [[nodiscard]] std::vector<Asked> take_asked(const Channel<Notice>& listener);
  struct Pending {
    Operation* oldest = nullptr;
    Operation* newest = nullptr;
  };
  [[nodiscard]] Pending& list_of(const Operation& operation) noexcept LEAT_REQUIRES(lock_) {
    return operation.is_patient ? patient_ : watched_;
  }
  void remove(Operation& operation) noexcept LEAT_REQUIRES(lock_);
  /// Writes the files, with the failure if there is one. Reports on stderr what cannot be written.
  void write_recorders() noexcept;

  const OpenOptions options_;
  const int size_;
  const int first_;
  std::optional<Scheduler> own_;
  std::shared_ptr<SchedulerCore> scheduler_;
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;
  std::mutex writing_;                  // so that the last file has the failure
  std::mutex stopping_;                 // held while companions are stopped
  bool is_stopped_ = false;             // stopping_
  std::vector<Companion*> companions_;  // stopping_

  std::atomic<bool> dead_{false};
  std::unique_ptr<const Failure> failure_;  // before dead_

  mutable SpinLock lock_;
  Pending watched_ LEAT_GUARDED_BY(lock_);
  Pending patient_ LEAT_GUARDED_BY(lock_);
  std::uint64_t added_ LEAT_GUARDED_BY(lock_) = 0;
  bool failing_ LEAT_GUARDED_BY(lock_) = false;
  bool watchdog_sleeps_ LEAT_GUARDED_BY(lock_) = true;
  std::vector<Listener> listeners_ LEAT_GUARDED_BY(lock_);
  std::vector<Accusation> accusations_ LEAT_GUARDED_BY(lock_);

  Bell bell_{"comm watchdog"};
  std::optional<TaskGroup> fibers_;
  std::optional<OnSigquit> on_sigquit_;  // if there is a recorder_directory
};

}  // namespace leat::comm
