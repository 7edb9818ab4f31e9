// How a prefetcher works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/live.h"
#include "leat/feeder/order.h"

namespace leat::gpu {
class StreamRef;
}  // namespace leat::gpu

namespace leat::feeder {

class TensorSet;
class Trace;

/// In which order the batches of an epoch are delivered.
enum class Delivery : std::uint8_t {
  kInOrder,  // batch 0, 1, 2, ...: the same for any number of workers and slots
  /// As they are read: a slow one does not hold up those behind it. Each rank has its own order, so
  /// ranks that train in step have shards of different batches in one step: step_size() is not of
  /// what they have together, and a resume wants the states of all of them, merged.
  kAsCompleted,
};

/// How several devices share an epoch.
enum class Sharing : std::uint8_t {
  /// Each rank has its shard of each global batch, known by arithmetic: for ranks that train in
  /// step. The same samples for any number of workers, slots or ranks.
  kStatic,
  /// Each batch goes, whole, to the device that has a free slot first: for devices of different
  /// speed that need no common step. Exactly once, in no fixed order, and each epoch once, in
  /// ascending order. Within one process.
  kDynamic,
};

/// Whether slots are watched: who writes where a batch is not his any more is told (leat::Error,
/// with slot, tensor, batch and streams), and who reads there reads poison
/// (feeder/slots/slot_checks.h).
enum class CheckSlots : std::uint8_t {
  kNo,
  kYes,
  kReadOnly,  // and the consumer's work must not change a batch either
};

/// How many samples may fail before their failure is the consumer's error. A sample that fails is
/// set aside: its batch has one fewer, and no other sample moves. What was read ahead counts when
/// its batch is handed out, not before. Counts are of one prefetcher: after a resume they begin
/// anew.
struct FailureBudget {
  std::uint64_t count = 0;  // that many may fail in any case
  double rate = 0;          // or this share of the samples of the batches so far, where it is more
};

/// Samples of variable length one after the other, without padding (feeder/plan/packing.h).
struct Packing {
  /// Samples, or pieces of them, that one rank's batch may have; 0: as many as it has elements.
  /// Room for that many of the fields of fixed length is allocated.
  std::size_t most_samples = 0;
};

/// Lets the prefetcher change `workers` and `prefetch_depth` while it runs, beginning with those
/// given, where its measurements say that it pays (Stats::decisions tells what it did and why). The
/// slots for all of it are allocated at the beginning: the maxima are lowered where they would
/// exceed max_pinned_bytes or max_device_bytes. The batches are the same.
struct Autotune {
  std::size_t max_workers = 8;
  std::size_t max_prefetch_depth = 4;
  /// Batches from one look at the measurements to the next; at least 1.
  std::size_t every = 64;
};

/// Work on the device between the copy and the consumer, such as uint8 to float, on a stream of the
/// prefetcher's own.
struct DeviceTransform {
  /// The tensors that `function` writes, of one sample. The consumer gets these, and those that
  /// were copied whose name none of these has. Empty: no transform.
  std::vector<Field> fields = {};
  /// Enqueues the work on the stream it is given. `in` are the tensors as copied, `out` the new
  /// ones. Is called on a fiber of the prefetcher for each batch; must not block, nor keep the
  /// tensors. What it throws ends the prefetcher.
  std::function<void(const TensorSet& in, const TensorSet& out, const gpu::StreamRef& stream)>
      function = {};
};

/// What a prefetcher's constructor refuses with std::invalid_argument, naming it: a 0 where at
/// least 1 is said, more than 4096 slots, leases or workers, and what contradicts itself.
struct PrefetcherOptions {
  /// Samples in a global batch, over all ranks; packed: elements. At least 1.
  std::size_t batch_size = 0;
  /// Batches that are staged ahead, counted with the one in use: 2 is double buffering (one with
  /// the consumer, one being copied), 1 makes copies and compute take turns. Device slots =
  /// max_leases + prefetch_depth - 1.
  std::size_t prefetch_depth = 2;
  /// Leases that a consumer may hold at a time; next() beyond it throws.
  std::size_t max_leases = 1;
  /// Fibers that read and decode samples, each a batch at a time; all devices share them.
  std::size_t workers = 1;
  /// Pinned slots of each device; 0: prefetch_depth, and for each device its part of the workers'
  /// (rounded up); at least 2.
  std::size_t pinned_slots = 0;
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kPartial;
  /// Packs samples of variable length, whose lengths the dataset tells (Dataset::length). Otherwise
  /// they are padded with zeros, and their lengths delivered. Not with LastBatch::kWrap.
  std::optional<Packing> packing = std::nullopt;
  Delivery delivery = Delivery::kInOrder;
  Sharing sharing = Sharing::kStatic;
  /// Of the first device; the others follow. For several processes: a world of world_size ranks,
  /// each a device of one of them. 0: the devices of this prefetcher are the world.
  std::size_t rank = 0;
  std::size_t world_size = 0;
  /// Samples that may fail in Dataset::read, and in a host transform (feeder/map.h).
  FailureBudget read_failures = {};
  FailureBudget transform_failures = {};
  std::optional<Autotune> autotune = std::nullopt;
  DeviceTransform device_transform = {};
  /// Copies are made in pieces of at most so many bytes. 0: in one piece, or, of several devices,
  /// which may share a link, in pieces of 8 MiB, so that none waits long for another's.
  std::size_t copy_chunk_bytes = 0;
  /// The most that all slots may take, over all devices and on each of them; 0: as much as it is.
  std::size_t max_pinned_bytes = 0;
  std::size_t max_device_bytes = 0;
  /// What Prefetcher::state() returned, of a run with the same dataset, batch_size, order, seed and
  /// last_batch. Empty: from the beginning.
  std::string resume = {};
  /// For debugging. Every batch is copied several times, and waited for.
  CheckSlots check_slots = CheckSlots::kNo;
  /// Records batches for a timeline (feeder/trace.h). Null: nothing is recorded.
  std::shared_ptr<Trace> trace = nullptr;
  /// Shows the figures in a terminal while it runs (feeder/live.h).
  std::optional<Live> live = std::nullopt;
  /// One step in this many is timed on the device, on average and at irregular distances (0: none;
  /// 1 and 2: two in five). Below 8, those at the beginning of very short epochs somewhat more
  /// often than the others.
  std::size_t sample_every = 16;
};

}  // namespace leat::feeder
