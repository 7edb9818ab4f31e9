// One rank of this process: its device, its stages with their memory, and the fiber that runs its
// program.
//
// Always true:
//  - All work of a rank is in the order of its main stream. The work of another lane begins after
//    the main stream's work of the cells before, and the main stream waits for it.
//  - The fiber may be ahead of the device by cells that only compute and receive. It waits for the
//    device in Sends, and at the end.
//
// Not thread-safe: one fiber runs a rank, and the fibers of its lanes are its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/pipeline/executor.h"
#include "leat/pipeline/executor/link.h"
#include "leat/pipeline/executor/program.h"
#include "leat/pipeline/executor/slots.h"
#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

class Rank {
 public:
  /// Row `rank` of the lowered schedule; `forwards` are what evaluates. Allocates its memory, for
  /// microbatches of up to `most` samples, and opens the exchange with its replicas. Throws
  /// std::invalid_argument, GpuError, CommError.
  Rank(const Schedule& lowered, const Schedule& forwards, std::size_t rank, RankPart part,
       std::uint64_t most);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  /// Waits for the device.
  ~Rank();

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] const gpu::Device& device() const noexcept { return part_.device; }
  [[nodiscard]] const gpu::StreamRef& stream() const noexcept { return lanes_.front()->stream; }
  /// Writes the memory that its stages need into `all`, by their numbers.
  void tell_memory(std::vector<StageMemory>& all) const;
  /// Sets the link of a channel that begins or ends at this rank.
  void connect(std::uint32_t channel, Link* link);
  /// Runs a step, or its forwards, on the calling fiber; `group` has the fibers of lanes. Returns
  /// when the device has done all of it. Throws PipelineError, Cancelled.
  void run(const Batch& batch, TaskGroup& group);
  /// Tells the replicas that this rank cannot go on.
  void abort(const std::string& reason) const noexcept;
  /// Its figures.
  [[nodiscard]] ExecutorStats::Rank stats() const;

 private:
  /// A stream, and the transfers of one channel that its fiber has to do for a block.
  struct Lane {
    explicit Lane(const gpu::Device& device) : stream(device), done(device) {}
    gpu::Stream stream;
    gpu::Event done;
    const Instruction* first = nullptr;
    const Instruction* end = nullptr;
    const Batch* batch = nullptr;
  };
  struct StageState {
    Stage* stage = nullptr;
    std::int32_t number = 0;
    StageMemory memory;
    StageSlots slots;
    std::size_t first_gradient = 0;  // of the exchange's
    std::size_t end_gradient = 0;
    std::int64_t live = 0;  // activations
    std::atomic<std::int64_t> peak{0};
  };

  void require_buckets_end() const;
  void allocate(const Schedule& lowered, std::uint64_t most);
  void run(const Program& program, const Batch& batch, TaskGroup& group, const Instruction*& at);
  void run_together(const Program& program, const Block& block, const Batch& batch,
                    TaskGroup& group, const Instruction*& at);
  void transfer_all(const Lane& lane, const Instruction*& at);
  template <class F>
  void guarded(const Instruction*& at, const TaskGroup& group, const F& f) const;
  void perform(const Instruction& one, const Batch& batch);
  void forward(const Instruction& one, const Batch& batch);
  void backward(const Instruction& one, const Batch& batch);
  TimePoint transfer(const Instruction& one, const Batch& batch, const gpu::StreamRef& stream);
  StageState& describe(const Instruction& one, const Batch& batch);

  const std::size_t rank_;
  const RankPart part_;
  const std::int32_t stages_;  // of all ranks
  const Program whole_;
  const Program forwards_;
  std::vector<std::unique_ptr<StageState>> own_;
  std::optional<gpu::DeviceBuffer> memory_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // the first is the main one
  gpu::Event begun_;                          // the main stream's work before a block with lanes
  std::vector<Link*> links_;                  // by channel
  std::optional<Microbatch> call_;            // what stages are called with
  WaitGroup lanes_at_work_;
  std::optional<comm::GradientExchange> exchange_;
};

}  // namespace leat::pipeline
