#include "leat/feeder/stages.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/select.h"

namespace leat::feeder {
namespace {

std::uint64_t count_batches(std::uint64_t samples, std::size_t batch_size, LastBatch last) {
  const std::uint64_t whole = samples / batch_size;
  return whole + (last == LastBatch::kPartial && samples % batch_size != 0 ? 1 : 0);
}

// The caller is handling what a dataset threw: adds which sample it was.
[[noreturn]] void throw_read_error(const Dataset& dataset, std::uint64_t sample,
                                   const BatchId& batch) {
  std::string text = "leat: reader: sample " + std::to_string(sample) + " of dataset \"" +
                     std::string(dataset.name()) + "\" (epoch " + std::to_string(batch.epoch) +
                     ", batch " + std::to_string(batch.index) + ")";
  try {
    throw;
  } catch (const std::exception& e) {
    text += std::string(": ") + e.what();
  } catch (...) {
    text += ": unknown exception";
  }
  std::throw_with_nested(Error(text));
}

// Gives out what arrives in any order in the order of its sequence numbers.
class InOrder {
 public:
  InOrder(const Channel<Filled>& from, std::size_t slots) : from_(from) {
    pending_.reserve(2 * slots + 2);  // slots, and an end of epoch between any two
  }
  Filled next() {
    for (;;) {
      const auto it = std::find_if(pending_.begin(), pending_.end(),
                                   [&](const Filled& f) { return f.sequence == next_; });
      if (it != pending_.end()) {
        const Filled found = *it;
        *it = pending_.back();
        pending_.pop_back();
        ++next_;
        return found;
      }
      pending_.push_back(from_.recv().value());  // never closed: the stages end by cancellation
    }
  }

 private:
  const Channel<Filled>& from_;
  std::vector<Filled> pending_;
  std::uint64_t next_ = 0;
};

}  // namespace

Stages::Stages(const Dataset& dataset, const PrefetcherOptions& options,
               std::shared_ptr<SlotRing> ring)
    : dataset_(dataset),
      batch_size_(options.batch_size),
      workers_(options.workers),
      seed_(options.seed),
      sampler_(dataset.size(), options.order, options.seed),
      batches_(count_batches(dataset.size(), options.batch_size, options.last_batch)),
      ring_(std::move(ring)) {}

void Stages::launch(TaskGroup& group) {
  const auto start = [&](const char* name, void (Stages::*body)()) {
    group.go(
        [this, body] {
          try {
            (this->*body)();
          } catch (const Cancelled&) {
            ring_->finish(std::make_exception_ptr(Error("leat: the prefetcher was stopped")));
            throw;
          } catch (...) {
            ring_->finish(std::current_exception());
            throw;  // stops the other stages
          }
        },
        {.name = name});
  };
  start("sampler", &Stages::sample);
  for (std::size_t i = 0; i < workers_; ++i) start("reader", &Stages::read);
  start("copier", &Stages::copy);
  start("recycler", &Stages::recycle);
}

// Names the batches in order, each with a free slot, from the epoch requested on through the ones
// that follow, until another is requested.
void Stages::sample() {
  std::uint64_t sequence = 0;
  std::optional<Request> request = ring_->requests.recv();
  std::uint64_t epoch = request->epoch;
  std::uint64_t index = 0;
  for (;;) {
    std::optional<Request> newer;
    if (index == batches_) {
      ring_->filled.send(
          {.slot = nullptr, .sequence = sequence++, .generation = request->generation});
      static_cast<void>(ring_->requests.try_recv(newer));
      ++epoch;
      index = 0;
    } else {
      std::optional<PinnedSlot*> slot;
      if (ring_->requests.try_recv(newer) != ChannelStatus::ok) {
        select(on_recv(ring_->requests, [&](std::optional<Request> r) { newer = r; }),
               on_recv(ring_->free_pinned, [&](std::optional<PinnedSlot*> s) { slot = s; }));
      }
      if (slot.has_value()) {
        PinnedSlot& free = **slot;
        free.state.move_on(PinnedState::kFree, PinnedState::kFilling);
        const std::uint64_t first = index * batch_size_;
        free.batch = {.epoch = epoch,
                      .index = index,
                      .samples = static_cast<std::size_t>(
                          std::min<std::uint64_t>(batch_size_, sampler_.size() - first))};
        free.sequence = sequence++;
        free.generation = request->generation;
        free.error = nullptr;
        ring_->work.send(&free);
        ++index;
      }
    }
    if (newer.has_value()) {
      request = newer;
      epoch = request->epoch;
      index = 0;
    }
  }
}

void Stages::read() {
  Reading reading{.rooms = std::vector<std::span<std::byte>>(ring_->layout.tensors().size()),
                  .lengths = std::vector<std::size_t>(ring_->layout.tensors().size()),
                  .scratch = {}};
  for (PinnedSlot* const slot : ring_->work) {
    const TimePoint start = now();
    try {
      fill(*slot, reading);
    } catch (const Error&) {
      slot->error = std::current_exception();  // travels in order, behind the batches before it
    }
    ring_->stats.add_read(now() - start);
    slot->state.move_on(PinnedState::kFilling, PinnedState::kFilled);
    ring_->filled.send({.slot = slot, .sequence = slot->sequence, .generation = slot->generation});
  }
}

void Stages::fill(PinnedSlot& slot, Reading& reading) const {
  const std::uint64_t first = slot.batch.index * batch_size_;
  for (std::size_t i = 0; i < slot.batch.samples; ++i) {
    const std::uint64_t sample = sampler_.at(slot.batch.epoch, first + i);
    for (std::size_t f = 0; f < reading.rooms.size(); ++f) {
      const TensorLayout& tensor = ring_->layout.tensors()[f];
      reading.rooms[f] = slot.buffer.span().bytes().subspan(tensor.offset + i * tensor.sample_bytes,
                                                            tensor.sample_bytes);
    }
    try {
      reading.scratch.reset();
      Sample out(dataset_.fields(), reading.rooms, reading.lengths, slot.batch.epoch,
                 Random(seed_, slot.batch.epoch, sample), reading.scratch);
      dataset_.read(sample, out);
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      throw_read_error(dataset_, sample, slot.batch);
    }
  }
}

void Stages::copy() {
  InOrder in_order(ring_->filled, ring_->filled.capacity());
  std::shared_ptr<StepTiming> pair;
  for (;;) {
    const Filled next = in_order.next();
    if (next.slot == nullptr) {
      ring_->ready.send({.slot = nullptr, .generation = next.generation});
      continue;
    }
    if (next.slot->error != nullptr) std::rethrow_exception(next.slot->error);
    stage(*next.slot, pair);
  }
}

// Copies one batch to the next device slot that was released, all on the device's time: the host
// only enqueues.
void Stages::stage(PinnedSlot& from, std::shared_ptr<StepTiming>& pair) {
  const TimePoint asked = now();
  DeviceSlot& to = **ring_->free_device.recv();
  const Duration blocked = now() - asked;
  const gpu::Stream& stream = ring_->copy_stream;

  const StepPart part = ring_->stats.next_part(from.batch.index + 1 == batches_);
  if (part == StepPart::kFirst) pair = ring_->stats.take();
  StepTiming* const timing = part == StepPart::kNone ? nullptr : pair.get();
  const bool timed = timing != nullptr && part == StepPart::kSecond;

  if (timed) timing->queued.record(stream);
  if (to.state.now() == DeviceState::kReleased) {
    for (std::size_t i = 0; i < to.bound; ++i) stream.wait(to.released[i]);
    to.bound = 0;
    to.state.move_on(DeviceState::kReleased, DeviceState::kFree);
  }
  to.state.move_on(DeviceState::kFree, DeviceState::kCopying);
  from.state.move_on(PinnedState::kFilled, PinnedState::kCopying);
  if (timed) timing->copy_start.record(stream);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < ring_->layout.tensors().size(); ++i) {
    const TensorLayout& tensor = ring_->layout.tensors()[i];
    const std::size_t length = from.batch.samples * tensor.sample_bytes;
    gpu::copy_async(stream, to.buffer.subspan(tensor.offset, length),
                    from.buffer.subspan(tensor.offset, length));
    to.shapes[i][0] = static_cast<std::int64_t>(from.batch.samples);
    bytes += length;
  }
  if (timing != nullptr) {
    (timed ? timing->copy_end : timing->copy_end_before).record(stream);
    if (timed) {
      timing->copier_blocked = blocked;
      timing->copied = true;
    }
    to.timing = pair;
  }
  to.part = part;
  if (timed) pair = nullptr;
  from.copied.record(stream);
  to.ready.record(stream);
  ring_->stats.add_copy(bytes);
  to.batch = from.batch;
  to.state.move_on(DeviceState::kCopying, DeviceState::kReady);
  const std::uint64_t generation = from.generation;
  ring_->in_flight.send(&from);
  ring_->ready.send({.slot = &to, .generation = generation});
}

void Stages::recycle() {
  for (PinnedSlot* const slot : ring_->in_flight) {
    slot->copied.await();
    slot->state.move_on(PinnedState::kCopying, PinnedState::kFree);
    ring_->free_pinned.send(slot);
  }
}

}  // namespace leat::feeder
