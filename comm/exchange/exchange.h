// The exchange behind GradientExchange: the trainer's calls, and a fiber on the scheduler of
// communication that does all the rest.
//
//   trainer ──call──► fiber ──report──► fiber of rank 0, which leads
//      ▲                │ ▲                │
//      └────result──────┘ └────orders──────┘        pieces: weighted all_reduces, in that order
//
// Always true:
//  - The trainer alone uses TrainerGradient, a gradient's state on its side, but for the result.
//    The fiber alone uses FiberGradient, the state on its side. Calls and results go between them.
//  - Every rank begins the pieces in the order in which rank 0 orders them: the k-th has number k
//    on all ranks.
//  - The fiber runs until TrainerCall::kStop, also after a failure, so that no call finds a full
//    channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/exchange/calls.h"
#include "leat/comm/exchange/leader.h"
#include "leat/comm/exchange/meter.h"
#include "leat/comm/exchange/plan.h"
#include "leat/comm/exchange/staging.h"
#include "leat/comm/gradient_exchange.h"
#include "leat/comm/trace.h"
#include "leat/csp/bell.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/event.h"

namespace leat::comm {

class Exchange {
 public:
  Exchange(const Communicator& communicator, std::vector<Gradient> gradients,
           ExchangeOptions options);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // The trainer's calls: trainer.cpp. See GradientExchange. Without a stream: null.
  void broadcast(std::span<const Gradient> tensors, int root);
  void begin_step(std::uint64_t samples);
  void ready(std::size_t index, const gpu::StreamRef* stream);
  void end_backward();
  bool await(std::size_t index, const gpu::StreamRef* stream);
  void await_all(const gpu::StreamRef* stream);
  [[nodiscard]] ExchangeStats stats() const { return meter_.stats(world_.time(), plan_.gradients); }
  [[nodiscard]] std::size_t size() const noexcept { return plan_.gradients.size(); }
  /// Whether it is outside a backward, and all results were awaited.
  [[nodiscard]] bool is_idle() const noexcept;
  /// Waits for the work that is enqueued behind results, which may use the gradients' memory.
  void wait_for_streams() const;

 private:
  // ---- the trainer's side

  /// A gradient as the trainer sees it.
  struct TrainerGradient {
    std::uint64_t step = 0;  // 0: never
    bool awaited = true;
    std::optional<gpu::StreamRef> last_stream;  // of await()
    // The result. The fiber writes it, then the step, then rings.
    std::atomic<std::uint64_t> result_step{0};  // its result was handed to the device
    bool is_empty = false;                      // no rank has contributed
    std::optional<gpu::Event> handed;           // if staged on a device: recorded behind the copies
    Bell bell{"comm result", Bell::RungBy::kOutsiders};
  };

  void start();
  void require_alive() const { world_.require_alive(end_->world_rank()); }
  void require_stream(const char* call, const gpu::StreamRef* stream) const;
  [[nodiscard]] TrainerGradient& gradient(std::size_t index, const char* call);
  [[nodiscard]] std::string call_of(const char* call, std::size_t index) const;
  void give(std::uint32_t index, bool contributes, const gpu::StreamRef* stream);
  void give_empty();
  void wait(std::uint32_t index);
  void trace(Trace::Kind kind, std::uint32_t tensor, std::uint64_t step, TimePoint begin,
             std::uint32_t piece = 0);

  // ---- the fiber's side: fiber.cpp

  /// A gradient in the step that is exchanged.
  struct FiberGradient {
    std::uint32_t tensor = 0;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
    bool is_given = false;         // this rank contributes
    bool is_absent = false;        // nobody does
    std::uint32_t orders_due = 0;  // or the notice that it is empty
    std::uint32_t pieces_left = 0;
  };
  /// A piece of the plan; once in each step it is ordered, under way, and idle again.
  struct Piece {
    Exchange* exchange = nullptr;
    Order order;
    Operation operation;
    std::byte* slot = nullptr;  // if it is staged: while it is under way
    TimePoint began;            // if it is traced
  };

  void run();
  void handle(const TrainerCall& call);
  void handle(const Notice& notice);
  bool drain();
  void report(const TrainerCall& call);
  void count(const Notice& report);
  void tell(std::span<const Notice> notices);
  void flush();
  void add_order(const Order& order);
  void start_ordered();
  void start(Piece& piece, std::uint64_t number);
  [[nodiscard]] bool copy(Piece& piece, Staging::Way way);
  void finish(Piece& piece);
  void hand_over(Piece& piece);
  void complete(std::uint32_t tensor, bool is_empty);
  void check_left();
  [[nodiscard]] Duration time_left() const;
  void check_deadline();
  [[nodiscard]] Failure failure_of(std::uint32_t tensor, std::uint64_t step,
                                   const std::string& what) const;
  [[nodiscard]] Answer waits_for(const Wait& asked) const;
  [[nodiscard]] std::vector<Wait> missing() const;
  [[nodiscard]] Wait leader() const;
  static bool is_awaited(const Operation& operation) noexcept;
  static void finished(Operation& operation, const Failure* failure) noexcept;

  const ExchangeOptions options_;
  const std::vector<std::vector<Gradient>> seen_;  // as the layers see them
  const Plan plan_;
  Communicator control_;            // of the constructor and broadcast()
  std::shared_ptr<Transport> end_;  // of the pieces
  World& world_;
  std::vector<int> world_ranks_;  // by rank
  const bool leads_;
  const bool on_device_;  // pieces are exchanged in the device's memory
  const bool is_staged_;

  const Channel<TrainerCall> calls_;
  const Channel<Notice> notices_;
  const Channel<Piece*> finished_;                  // has room for all
  std::atomic<TimePoint> heard_{TimePoint::min()};  // when rank 0 or a peer moved something on
  std::atomic<bool> trainer_waits_{false};          // for a result
  mutable Meter meter_;

  // The trainer's.
  std::vector<TrainerGradient> gradients_;
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  bool in_backward_ = false;

  // The fiber's.
  std::vector<FiberGradient> mine_;
  std::optional<Leader> leader_;
  std::vector<std::size_t> left_;  // ranks whose exchanges are gone
  std::vector<Notice> outgoing_;   // rank 0's decisions, or another's reports
  std::vector<Piece> pieces_;
  std::vector<Piece*> orders_;  // a ring of the pieces that are ordered, and not begun
  std::uint64_t ordered_ = 0;   // pieces so far
  std::uint64_t begun_ = 0;     // pieces so far, and the number of the next
  std::uint64_t under_way_ = 0;
  std::vector<Part> parts_;
  std::optional<Staging> staging_;
  bool is_stopping_ = false;
  TimePoint link_was_free_ = TimePoint::min();  // if pieces are traced
  bool has_heard_ = false;                      // of peers, in this round of run()
  bool has_told_failure_ = false;
  bool has_accused_ = false;

  std::optional<StreamCalls> trainer_events_;
  std::optional<StreamCalls> staging_events_;
  std::optional<TaskGroup> fiber_;
};

}  // namespace leat::comm
