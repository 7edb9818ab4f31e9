#include "leat/gpu/host/host_backend.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/backend/page_mapping.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host/crew.h"
#include "leat/gpu/host/engines.h"
#include "leat/gpu/host/event.h"
#include "leat/gpu/host/event_record.h"
#include "leat/gpu/host/memory.h"
#include "leat/gpu/host/stream.h"

namespace leat::gpu::host {
namespace {

HostStream& stream_of(StreamHandle handle) noexcept {
  return *reinterpret_cast<HostStream*>(static_cast<std::uintptr_t>(handle));
}

HostEvent& event_of(EventHandle handle) noexcept {
  return Pool<HostEvent>::value(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle)));
}

constexpr std::align_val_t kDeviceAlignment{256};           // as cudaMalloc
constexpr std::align_val_t kPinnedAlignment{4096};          // as cudaHostAlloc: a page
constexpr std::size_t kStreamStack = std::size_t{1} << 20;  // kernels run on it; committed lazily

const Capabilities kCapabilities = {.host_kernels = true,
                                    .device_memory_is_host_memory = true,
                                    .cuda_kernels = false,
                                    .virtual_time = true,
                                    .foreign_streams = false,
                                    .stream_ordered_memory = true,
                                    .batched_copies = true};

class HostBackend final : public Backend {
 public:
  HostBackend(int index, const HostModel& model, const std::shared_ptr<Crew>& crew)
      : info_(describe(index, model)),
        memory_(
            std::make_shared<HostMemory>("device memory", kDeviceAlignment, info_.memory_bytes)),
        pinned_(std::make_shared<HostMemory>("pinned memory", kPinnedAlignment, machine_memory())),
        crew_(crew),
        engines_(crew->engines) {}

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return kCapabilities; }
  [[nodiscard]] const char* family() const noexcept override { return "host"; }
  [[nodiscard]] const SchedulerCore* scheduler() const noexcept override {
    return &engines_->scheduler();
  }
  [[nodiscard]] std::shared_ptr<SchedulerCore> own_scheduler() const noexcept override {
    const std::shared_ptr<Crew> crew = crew_.lock();
    return crew && crew->own ? crew->own->core() : nullptr;
  }

  StreamHandle create_stream() override {
    rethrow_device_error();
    std::shared_ptr<Crew> crew = crew_.lock();
    if (!crew) {
      throw GpuError(0, "the device was closed", "create a stream", info_.name,
                     "only memory of it is left: keep the Device for as long as it is used");
    }
    const int number = next_stream_.fetch_add(1, std::memory_order_relaxed);
    auto stream =
        std::make_shared<HostStream>(engines_, info_.name + " stream " + std::to_string(number));
    HostStream* const key = stream.get();
    {
      const std::scoped_lock lock(mutex_);
      draining_.reserve(draining_.size() + streams_.size() +
                        1);  // so that destroy_stream() cannot fail
      streams_.emplace(key, Running{stream, crew});
    }
    const auto forget = [&] {
      const std::scoped_lock lock(mutex_);
      streams_.erase(key);
    };
    try {
      crew->group->go([stream] { stream->run(); },
                      {.name = stream->name(), .stack_size = kStreamStack});
    } catch (const std::logic_error&) {
      forget();
      throw GpuError(0, "device lost", "create a stream", info_.name,
                     "the scheduler that it ran on has ended");
    } catch (...) {
      forget();
      throw;
    }
    return static_cast<StreamHandle>(reinterpret_cast<std::uintptr_t>(key));
  }

  void destroy_stream(StreamHandle handle) noexcept override {
    Running ended;
    {
      const std::scoped_lock lock(mutex_);
      const auto it = streams_.find(&stream_of(handle));
      ended = std::move(it->second);
      streams_.erase(it);
      std::erase_if(draining_, [](const auto& one) { return one->is_done(); });
      if (!ended.stream->is_done()) draining_.push_back(ended.stream);
    }
    ended.stream->close();
  }

  StreamHandle wrap_stream(void* /*native*/) override {
    throw GpuError(0, "there are no foreign streams", "wrap a stream", info_.name,
                   "make a leat::gpu::Stream");
  }
  StreamHandle legacy_stream() override {
    throw GpuError(0, "there is no legacy default stream", "legacy", info_.name,
                   "make a leat::gpu::Stream");
  }
  [[nodiscard]] bool is_capturing(StreamHandle /*stream*/) override { return false; }
  [[nodiscard]] void* native_handle(StreamHandle /*stream*/) const noexcept override {
    return nullptr;
  }

  void sync(StreamHandle handle) override {
    engines_->refuse_foreign_virtual_time("sync");
    if (stream_of(handle).runs_caller()) {
      throw GpuError(0, "a kernel cannot wait for its own stream", "sync", info_.name,
                     "use an event of another stream");
    }
    const EventRecordRef record = records_->take(engines_->scheduler());
    stream_of(handle).enqueue(RecordOperation{record});
    const Shield shield;
    record->wait();
  }
  [[nodiscard]] bool is_done(StreamHandle handle) override {
    rethrow_device_error();
    return stream_of(handle).is_done();
  }

  EventHandle create_event(bool timed) override {
    Pool<HostEvent>::Ref event = events_->take();
    event->set_timed(timed);
    return static_cast<EventHandle>(reinterpret_cast<std::uintptr_t>(event.release()));
  }
  void destroy_event(EventHandle handle) noexcept override {
    // The queues hold the event's records.
    static_cast<void>(
        Pool<HostEvent>::Ref::adopt(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle))));
  }
  void record(EventHandle handle, StreamHandle stream) override {
    HostEvent& event = event_of(handle);
    const std::uint64_t turn = event.begin_record();
    EventRecordRef record = records_->take(engines_->scheduler());
    stream_of(stream).enqueue(RecordOperation{record});
    event.end_record(turn, std::move(record));
  }
  void wait(StreamHandle stream, EventHandle handle) override {
    rethrow_device_error();
    EventRecordRef record = event_of(handle).latest();
    if (!record) return;
    if (record->is_done()) {
      record->rethrow_error();  // the event's device may be another one, and have failed
    } else {
      engines_->refuse_to_wait_for(record->scheduler());
      stream_of(stream).enqueue(WaitOperation{std::move(record)});
    }
  }
  void sync(EventHandle handle) override {
    const Shield shield;
    await(handle, "sync");
  }
  [[nodiscard]] bool is_done(EventHandle handle) override {
    rethrow_device_error();
    const EventRecordRef record = event_of(handle).latest();
    if (!record) return true;
    if (!record->is_done()) return false;
    record->rethrow_error();
    return true;
  }
  void await(EventHandle handle) override { await(handle, "await"); }
  void await(EventHandle handle, const char* what) {
    engines_->refuse_foreign_virtual_time(what);
    rethrow_device_error();
    if (const EventRecordRef record = event_of(handle).latest()) record->wait();
  }
  void subscribe(EventHandle handle, const DoneSignalRef& signal) override {
    engines_->refuse_foreign_virtual_time("on_done");
    const EventRecordRef record = event_of(handle).latest();
    if (const std::exception_ptr error = engines_->error()) {
      signal->notify(error);
    } else if (!record) {
      signal->notify(nullptr);
    } else {
      signal->record = EventRecordRef(record).release();
      record->subscribe(signal);
    }
  }
  void unsubscribe(DoneSignal& signal) noexcept override {
    if (signal.record == nullptr) return;
    EventRecordRef::adopt(std::exchange(signal.record, nullptr))->unsubscribe(signal);
  }
  [[nodiscard]] Duration elapsed(EventHandle start, EventHandle end) override {
    rethrow_device_error();
    const EventRecordRef from = event_of(start).latest();
    const EventRecordRef to = event_of(end).latest();
    if (!event_of(start).timed() || !event_of(end).timed() || !from || !to || !from->is_done() ||
        !to->is_done()) {
      throw GpuError(0, "both events must be timed, recorded and done", "elapsed", info_.name,
                     "make them with Timing::kOn and await the later one");
    }
    from->rethrow_error();
    to->rethrow_error();
    return to->at() - from->at();
  }

  void* allocate_device(std::size_t bytes) override { return allocate(memory_, bytes); }
  [[nodiscard]] bool free_device(void* memory) noexcept override {
    return release(take_allocation(memory),
                   [&](const auto& block) { return retain_everywhere(block); });
  }
  void* allocate_device(std::size_t bytes, StreamHandle handle) override {
    return allocate(memory_, bytes, &stream_of(handle));
  }
  [[nodiscard]] bool free_device(void* memory, StreamHandle /*stream*/) noexcept override {
    Allocation freed = take_allocation(memory);
    HostStream& stream = *freed.stream;
    return release(std::move(freed), [&](const auto& block) { return stream.retain(block); });
  }
  // The memory is not pinned, because a copy is a memcpy.
  void* allocate_pinned(std::size_t bytes, PinnedUse /*use*/) override {
    return allocate(pinned_, bytes);
  }
  [[nodiscard]] bool free_pinned(void* memory) noexcept override {
    return release(take_allocation(memory),
                   [&](const auto& block) { return retain_everywhere(block); });
  }
  void pin_pages(PageMapping& /*pages*/) override {}
  [[nodiscard]] bool free_pages(PageMapping pages, bool /*are_pinned*/) noexcept override {
    try {
      auto shared = std::make_shared<PageMapping>(std::move(pages));
      const bool gone = retain_everywhere(shared);
      if (!gone) shared->abandon();  // streams may still use them
      return gone;
    } catch (const std::bad_alloc&) {
      pages.abandon();
      return false;
    }
  }

  void copy_async(StreamHandle stream, void* to, const void* from, std::size_t bytes,
                  CopyDirection direction) override {
    rethrow_device_error();
    if (bytes == 0) return;
    stream_of(stream).enqueue(CopyOperation{to, from, bytes, direction, true});
  }
  void copy_batch_async(StreamHandle stream, std::span<const CopyRange> copies,
                        CopyDirection direction) override {
    rethrow_device_error();
    bool first = true;
    for (const auto& [to, from, bytes] : copies) {
      stream_of(stream).enqueue(
          CopyOperation{to, from, bytes, direction, std::exchange(first, false)});
    }
  }
  void launch_host(StreamHandle stream, UniqueFunction<void()> function,
                   Duration modelled_time) override {
    stream_of(stream).enqueue(KernelOperation{std::move(function), modelled_time});
  }

 private:
  struct Running {
    std::shared_ptr<HostStream> stream;
    std::shared_ptr<Crew> crew;
  };

  struct Allocation {
    std::shared_ptr<HostMemory::Block> block;
    std::shared_ptr<HostStream> stream;  // the stream in whose order it was allocated
  };

  void* allocate(const std::shared_ptr<HostMemory>& from, std::size_t bytes,
                 HostStream* stream = nullptr) {
    rethrow_device_error();
    // A kernel occupies its own stream and the compute engine, so it cannot wait for them.
    const bool waits = StreamFiber::current() != engines_.get();
    Allocation made{.block = from->allocate(bytes, *engines_, waits), .stream = nullptr};
    const std::scoped_lock lock(mutex_);
    void* const key = made.block->get();
    if (stream != nullptr) made.stream = streams_.at(stream).stream;
    allocations_.emplace(key, std::move(made));
    return key;
  }

  /// Removes an allocation from the table. Streams may still use its block.
  Allocation take_allocation(void* memory) noexcept {
    Allocation freed;
    {
      const std::scoped_lock lock(mutex_);
      const auto it = allocations_.find(memory);
      freed = std::move(it->second);
      allocations_.erase(it);
    }
    freed.block->free();
    return freed;
  }

  void rethrow_device_error() const {
    if (const std::exception_ptr error = engines_->error()) std::rethrow_exception(error);
  }

  /// Calls `retain`, which gives the block to the streams that may still use it. If one of them
  /// cannot hold it, keeps the block until all streams have ended and returns false.
  template <class Retain>
  bool release(Allocation freed, const Retain& retain) noexcept {
    if (retain(freed.block)) return true;
    const std::shared_ptr<Crew> crew = crew_.lock();
    if (!crew) return true;  // no stream runs any more
    freed.block->leak();
    const std::scoped_lock lock(mutex_);
    freed.block->next = std::move(crew->leaked);
    crew->leaked = std::move(freed.block);
    return false;
  }

  // Every stream with work in flight, also a destroyed one, holds the memory until that has run.
  [[nodiscard]] bool retain_everywhere(const std::shared_ptr<void>& memory) noexcept {
    bool all = true;
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, one] : streams_) all &= one.stream->retain(memory);
    for (const auto& stream : draining_) all &= stream->retain(memory);
    return all;
  }

  const DeviceInfo info_;
  const std::shared_ptr<HostMemory> memory_;
  const std::shared_ptr<HostMemory> pinned_;
  const std::weak_ptr<Crew> crew_;
  const std::shared_ptr<Engines> engines_;
  const std::shared_ptr<Pool<EventRecord>> records_ = std::make_shared<Pool<EventRecord>>();
  const std::shared_ptr<Pool<HostEvent>> events_ = std::make_shared<Pool<HostEvent>>();
  std::atomic<int> next_stream_{0};
  std::mutex mutex_;  // never held across a park
  std::unordered_map<HostStream*, Running> streams_;
  std::vector<std::shared_ptr<HostStream>>
      draining_;  // destroyed with work queued, until seen done
  std::unordered_map<void*, Allocation> allocations_;
};

// What the handles of an opened device share.
struct Opened {
  const std::shared_ptr<HostBackend> backend;
  const std::shared_ptr<Crew> crew;  // ends first
};

}  // namespace

DeviceInfo describe(int index, const HostModel& model) {
  return {.name = "host:" + std::to_string(index),
          .description = "software device on the CPU",
          .memory_bytes = model.memory_bytes != 0 ? model.memory_bytes : machine_memory(),
          .copy_engines = 2,
          .numa_node = -1};
}

std::shared_ptr<Backend> open(int index, const HostModel& model) {
  const std::shared_ptr<Crew> crew = make_crew(describe(index, model).name, model);
  auto backend = std::make_shared<HostBackend>(index, model, crew);
  Backend* const seam = backend.get();
  return {std::make_shared<Opened>(Opened{std::move(backend), crew}), seam};
}

}  // namespace leat::gpu::host
