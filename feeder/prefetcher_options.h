// The options of a prefetcher.
//
// Example
//   leat::feeder::PrefetcherOptions options{.batch_size = 64, .workers = 4, .seed = 1};
//   options.last_batch = leat::feeder::LastBatch::kDrop;
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/order.h"

namespace leat::gpu {
class StreamRef;
}  // namespace leat::gpu

namespace leat::feeder {

class TensorSet;
class Trace;

/// Where to show a live view, and how many batches progress counts. A thread of the prefetcher
/// writes, and never waits: what cannot be written at once is left out.
///
/// | written to | shown |
/// |---|---|
/// | a terminal | a block of lines, drawn anew ten times a second |
/// | anything else; TERM is unset, empty or "dumb" | a plain line a second for each device |
///
/// When the prefetcher ends, the last state stays. The block is as wide as the terminal, but at
/// most 120 columns, and at least a line shorter than the terminal. What does not fit is left out,
/// except the stage that limits the loop. In less than 40 columns, one line remains. The block is
/// redrawn in place when the terminal changes its size; a new block begins after the process was
/// stopped for more than a second. While another job is in the foreground, nothing is drawn. It has
/// colours unless NO_COLOR is set. It is ASCII unless the locale (LC_ALL, LC_CTYPE or LANG) is a
/// UTF-8 one. The block overwrites other output of the program to the same terminal. If several
/// prefetchers write to one terminal, they are shown one after the other.
struct Live {
  /// The file descriptor to write to, by default standard error. The caller owns it, and keeps it
  /// open for writing while the prefetcher lives. The prefetcher's constructor throws
  /// std::invalid_argument if it is not.
  int fd = 2;
  /// Number of batches, on each device, after which progress is 100 %. 0: the batches of an epoch.
  std::uint64_t batches = 0;
};

/// In which order the batches of an epoch are delivered.
enum class Delivery : std::uint8_t {
  kInOrder,  // batch 0, 1, 2, ...: the same for any number of workers and slots
  /// As soon as each is read: a slow batch does not hold up the batches behind it. Each rank then
  /// has its own order. In one step, ranks have shards of different batches: Lease::step_size() is
  /// not the sum of their shards, and a resume needs the merged states of all ranks (State::merge).
  kAsCompleted,
};

/// How several devices share an epoch.
enum class Sharing : std::uint8_t {
  /// Each rank has a fixed shard of each global batch. For ranks that train in step. A global batch
  /// has the same samples for any number of workers, slots or ranks.
  kStatic,
  /// Each whole batch goes to the first device that has a free slot. For devices of different speed
  /// without a common step. Each batch comes once, in no fixed order; each epoch comes once, in
  /// ascending order. Within one process.
  kDynamic,
};

/// For debugging: finds code that writes to a slot when or where it must not. Each report is a
/// leat::Error, with slot, tensor, row, byte and batch.
enum class CheckSlots : std::uint8_t {
  kNo,
  /// Reports
  /// - readers that leave the first or the last byte of a tensor's row unwritten, write outside
  ///   their row, or write after Dataset::read has returned (until the batch is copied);
  /// - writes to a batch after its release, with the streams of its lease;
  /// - writes behind the rows of a batch.
  /// Slots that nobody uses are filled with the byte 0xDB. A late read sees it until the next batch
  /// is copied there. Reads are not reported, nor are writes outside the slots. A sample whose
  /// bytes look unwritten is read twice.
  kYes,
  /// As kYes, and also reports writes to a batch while it is leased.
  kReadOnly,
};

/// How many samples may fail before a failure ends the epoch with an error. A sample that fails
/// within the budget is left out: its batch has one sample fewer, and no other sample moves. A
/// failure counts when its batch is handed out. Each prefetcher counts from 0, also after a resume.
/// The budget is `count`, or what `rate` allows if that is more.
struct FailureBudget {
  std::uint64_t count = 0;  // samples
  /// A fraction, 0 to 1, of the samples that were handed out so far. Bad samples may come first: so
  /// from the start the rate allows as many failures as in a whole epoch, but at most 100.
  double rate = 0;
};

/// Puts samples of variable length one after the other, without padding. An epoch is then one row
/// of elements, cut into batches of batch_size elements; a sample may be cut into pieces.
struct Packing {
  /// Samples and pieces of samples that one rank's batch may have; 0: as many as it has elements.
  /// In each slot, each field of fixed length has room for so many samples.
  std::size_t most_samples = 0;
};

/// How long the rows of a field of variable length are. Shorter samples end with zeros there.
enum class PadTo : std::uint8_t {
  kField,  // as the field declares: the same for all batches
  /// As the longest sample in the batch of this rank, 0 if it has none: fewer bytes are copied.
  /// Each field has its own length. The rows follow each other without gaps.
  kBatch,
};

/// Lets the prefetcher change `workers` and `prefetch_depth` while it runs. It begins with the
/// values given and changes them when its measurements say that this pays; Stats::decisions lists
/// the changes with their reasons. All slots are allocated at the beginning. The maxima are lowered
/// if their slots would exceed max_pinned_bytes, max_device_bytes, or what a device's MemoryCaps
/// leave. The batches do not depend on the changes.
///
/// Each added worker brings one pinned slot, which goes with the worker. The depth only grows: its
/// slots hide irregular delays, which the mean times do not show.
struct Autotune {
  /// At least PrefetcherOptions::workers.
  std::size_t max_workers = 8;
  /// At least PrefetcherOptions::prefetch_depth.
  std::size_t max_prefetch_depth = 4;
  /// Batches from one look at the measurements to the next; at least 1. A change needs 8 sampled
  /// steps. On a stream, these take about 8 x sample_every batches.
  std::size_t every = 64;
};

/// Work on the device between the copy and the consumer, such as a conversion from uint8 to float.
/// Runs on a stream of the prefetcher.
struct DeviceTransform {
  /// The tensors that `function` writes for one sample. The consumer gets these, and those copied
  /// tensors that have other names. Empty: no transform. With PadTo::kBatch, a field of variable
  /// length is as long as the dataset's field of the same name or, if there is none, the dataset's
  /// first field of variable length.
  std::vector<Field> fields = {};
  /// Enqueues the work on `stream`. `in` holds the tensors as copied, `out` the tensors to write.
  /// Called for each batch on a fiber of the prefetcher; must not block, and must not keep the
  /// tensors. An exception from it ends the prefetcher.
  std::function<void(const TensorSet& in, const TensorSet& out, const gpu::StreamRef& stream)>
      function = {};
};

/// How a prefetcher works. The prefetcher's constructor throws std::invalid_argument, naming the
/// option, for a 0 where at least 1 is required, for more than 4096 slots, leases or workers, and
/// for options that contradict each other.
struct PrefetcherOptions {
  /// Samples in a global batch, over all ranks; packed: elements. At least 1.
  std::size_t batch_size = 0;
  /// Batches on the device, the one in use included. 2 is double buffering: one batch in use, one
  /// being copied. With 1, copies and compute take turns. At least 1. There are
  /// max_leases + prefetch_depth - 1 device slots.
  std::size_t prefetch_depth = 2;
  /// Leases that a consumer may hold at a time; next() throws beyond that. At least 1.
  std::size_t max_leases = 1;
  /// Fibers that read and decode samples, a batch at a time each. Shared by all devices. At least
  /// 1.
  std::size_t workers = 1;
  /// Pinned slots of each device, at least 2. 0: prefetch_depth + workers / devices (rounded up).
  std::size_t pinned_slots = 0;
  /// In which order an epoch visits the samples.
  Order order = Order::kShuffled;
  /// The seed of the shuffled order and of Sample::random().
  std::uint64_t seed = 0;
  /// What becomes of the last batch of an epoch.
  LastBatch last_batch = LastBatch::kPartial;
  /// Packs samples of variable length. Needs Dataset::length(); excludes LastBatch::kWrap. Without
  /// packing, such samples are padded with zeros, and a tensor holds their lengths.
  std::optional<Packing> packing = std::nullopt;
  /// In which order the batches of an epoch are delivered.
  Delivery delivery = Delivery::kInOrder;
  /// How several devices share an epoch.
  Sharing sharing = Sharing::kStatic;
  /// The rank of the first device; the other devices have the ranks that follow. For training with
  /// several processes: each has some of the world_size ranks.
  std::size_t rank = 0;
  /// How many ranks train together. 0: the number of this prefetcher's devices.
  std::size_t world_size = 0;
  /// Samples that may fail in Dataset::read.
  FailureBudget read_failures = {};
  /// Samples that may fail in a host transform (feeder/map.h).
  FailureBudget transform_failures = {};
  /// Changes workers and prefetch_depth while the loop runs. Empty: off.
  std::optional<Autotune> autotune = std::nullopt;
  /// Work on the device between the copy and the consumer.
  DeviceTransform device_transform = {};
  /// The largest piece of a copy, in bytes. 0: one device copies in one piece; several devices,
  /// which may share a link, copy in pieces of 8 MiB, so that no copy waits long for another.
  std::size_t copy_chunk_bytes = 0;
  /// The most bytes of all pinned slots and of check_slots, over all devices; 0: no limit. A batch
  /// of a batch source that needs more than its slot's share is not pinned.
  std::size_t max_pinned_bytes = 0;
  /// The most bytes that all slots of one device may take there; 0: no limit.
  std::size_t max_device_bytes = 0;
  /// Resumes from this text of Prefetcher::state(). That run must have had the same dataset,
  /// batch_size, order, seed and last_batch. std::nullopt: starts at the beginning. The empty text
  /// is an error: a checkpoint that was not written leaves it.
  std::optional<std::string> resume = std::nullopt;
  /// For debugging: finds code that writes to a slot when or where it must not. Copies every batch
  /// several times, and waits for the copies.
  CheckSlots check_slots = CheckSlots::kNo;
  /// Lets readers that are ahead of the loop read the first batches of the next epoch while the
  /// last ones of this epoch are used. Off: a rank's part of an epoch is read once the rank asks
  /// for the epoch: by the first next() or next_until() after the end of the epoch before; by
  /// start(), receiver(), or the begin() of an epoch() loop. Then all batches of an epoch have what
  /// the program changed before it, and the loop waits for the first batch. With dynamic sharing,
  /// an epoch is read once any rank asks for it. An epoch that is left early is read on until
  /// another one is asked for.
  bool read_across_epochs = true;
  /// How long the rows of fields of variable length are. Slots have room for the longest in either
  /// case. PadTo::kBatch excludes packing, which has no padding.
  PadTo pad_to = PadTo::kField;
  /// Records batches for a timeline (feeder/trace.h). Null: nothing is recorded.
  std::shared_ptr<Trace> trace = nullptr;
  /// Shows the figures in a terminal while the loop runs. Empty: off.
  std::optional<Live> live = std::nullopt;
  /// On average, one step in `sample_every` is timed on the device, at irregular distances. 0:
  /// none; 1 and 2: two steps in five. Below 8, the first steps of very short epochs are timed
  /// somewhat more often than the others.
  std::size_t sample_every = 16;
};

}  // namespace leat::feeder
