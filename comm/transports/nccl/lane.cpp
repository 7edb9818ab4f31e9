#include "leat/comm/transports/nccl/lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "leat/comm/transports/nccl/launch.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/gpu/on_done.h"

namespace leat::comm::nccl {
namespace {

// How often NCCL is asked whether what is in flight has failed.
constexpr Duration kLook = std::chrono::milliseconds(20);

constexpr std::size_t kZeros = std::size_t{1} << 20;

}  // namespace

Lane::Lane(std::shared_ptr<const Library> library, gpu::Device device,
           std::shared_ptr<comm::Transport> beside)
    : beside_(std::move(beside)),
      world_(beside_->world()),
      native_(std::move(library), std::move(device)) {
  fiber_.emplace(world_.scheduler());
  // NCCL's functions want more stack than a fiber has by default.
  fiber_->go([this] { run(); }, {.name = "comm nccl", .stack_size = std::size_t{1} << 20});
}

Lane::~Lane() {
  const Shield shield;
  close();
  fiber_.reset();
}

void Lane::push(Work& work) noexcept {
  work.next = nullptr;
  const SpinLockGuard guard(lock_);
  (first_ != nullptr ? last_->next : first_) = &work;
  last_ = &work;
}

Work* Lane::pop() noexcept {
  const SpinLockGuard guard(lock_);
  Work* const work = first_;
  if (work != nullptr) first_ = work->next;
  return work;
}

void Lane::close() noexcept {
  is_closing_.store(true);
  ring();
}

void Lane::wait() noexcept {
  const Shield shield;
  fiber_->wait();  // run() throws nothing
}

void Lane::stop() noexcept {
  native_.abort();
  ring();
}

void Lane::run() {
  const Shield shield;
  for (;;) {
    const bool ends = is_closing_.load();
    try {
      launch_all();
      if (ends) break;  // nothing is in flight: the owner has waited for that
      wait_for_work();
    } catch (const Stopped&) {  // the world has failed
    } catch (const std::exception& error) {
      fail(error);
    }
    if (!world_.is_dead()) continue;
    const bool is_closing = is_closing_.load();  // then nothing comes after what is dropped
    drop();
    if (is_closing) break;
    bell_.wait();
  }
  try {
    if (!world_.is_dead()) {
      native_.close(Deadline::after(world_.time(), world_.options().deadline));
    }
  } catch (const Stopped&) {
  } catch (const std::exception& error) {  // the other ranks wait for this one, too
    fail(error);
  }
  native_.abort();
  has_ended_.store(true);
}

void Lane::launch_all() {
  while ((current_ = pop()) != nullptr) {
    launch(*current_);
    current_ = nullptr;
  }
}

void Lane::launch(Work& work) {
  if (work.bytes() == 0) return finish(work);
  native_.open_stream();
  if (work.pair != nullptr) {  // a message to oneself
    if (work.in != work.pair->out) {
      copy_async(native_.stream(), gpu::DeviceSpan(work.pair->out, work.bytes()),
                 gpu::DeviceSpan(const_cast<void*>(work.in), work.bytes()));
    }
  } else {
    if (!native_.is_open()) open();
    if (work.signature.kind == OperationKind::kAllReduce && work.in == nullptr) clear(work);
    nccl::launch(native_, work, beside_->rank(), beside_->size());
  }
  if (unused_.empty()) unused_.emplace_back();
  InFlight& next = unused_.front();
  next.work = &work;
  if (!next.event) next.event.emplace(native_.device());
  next.event->record(native_.stream());
  in_flight_.splice(in_flight_.end(), unused_, unused_.begin());
}

// Rank 0's name for it goes to all of them.
void Lane::open() {
  // Now, and once: memory that is allocated or freed later may wait for what is in flight, which
  // waits for other ranks.
  zeros_.emplace(native_.device(), kZeros);
  std::memset(zeros_->data(), 0, kZeros);
  ncclUniqueId id{};
  if (beside_->rank() == 0) id = native_.make_id();
  const Channel<bool> ended(1);
  Operation sent{.signature = {.kind = OperationKind::kBroadcast,
                               .dtype = DType::kUint8,
                               .root = 0,
                               .count = sizeof id},
                 .out = &id,
                 .owner = const_cast<Channel<bool>*>(&ended),
                 .is_patient = true,
                 .is_hidden = true};
  sent.finished = [](Operation& operation, const Failure* failure) noexcept {
    const Channel<bool> to = *static_cast<Channel<bool>*>(operation.owner);
    static_cast<void>(to.try_send(failure == nullptr));
  };
  beside_->begin(sent);
  if (!ended.recv().value()) throw Stopped();
  native_.init(id, beside_->size(), beside_->rank());
}

// This rank adds nothing: its memory, which gets the result, is 0 before.
void Lane::clear(const Work& work) {
  const gpu::DeviceSpan memory(work.out, work.bytes());
  for (std::size_t first = 0; first < memory.size(); first += zeros_->size()) {
    const std::size_t bytes = std::min(memory.size() - first, zeros_->size());
    copy_async(native_.stream(), memory.subspan(first, bytes), zeros_->subspan(0, bytes));
  }
}

// Until there is something to do.
void Lane::wait_for_work() {
  if (in_flight_.empty()) {
    bell_.wait();
    return;
  }
  bool is_done = false;
  select(bell_.on_ring(), gpu::on_done(*in_flight_.front().event, [&] { is_done = true; }),
         on_timeout(kLook, [&] {
           if (native_.is_open()) native_.check();
         }));
  if (!is_done) return;
  do {
    Work& work = *in_flight_.front().work;
    unused_.splice(unused_.begin(), in_flight_, in_flight_.begin());
    finish(work);
  } while (!in_flight_.empty() && in_flight_.front().event->is_done());
}

// The work may be used again, or be gone, before its operation's owner knows.
void Lane::finish(Work& work) noexcept {
  Operation* const operation = work.operation;
  Operation* other = nullptr;
  if (work.pair != nullptr) {
    other = work.pair->operation;
    work.pair->pool->release(*work.pair);
  }
  work.pool->release(work);
  if (world_.take(*operation)) world_.finish(*operation);
  if (other != nullptr && world_.take(*other)) world_.finish(*other);
}

// The world finishes their operations.
void Lane::drop() noexcept {
  const auto release = [](Work* work) {
    if (work->pair != nullptr) work->pair->pool->release(*work->pair);
    work->pool->release(*work);
  };
  if (current_ != nullptr) release(std::exchange(current_, nullptr));
  while (Work* const work = pop()) release(work);
  for (const InFlight& one : in_flight_) release(one.work);
  unused_.splice(unused_.begin(), in_flight_);
}

void Lane::fail(const std::exception& error) noexcept {
  const Work* const work =
      current_ != nullptr || in_flight_.empty() ? current_ : in_flight_.front().work;
  const int rank = beside_->world_rank();
  Failure failure{.peer = rank, .operation = "nccl", .what = ""};
  failure.what = "NCCL failed on rank " + std::to_string(rank);
  if (work != nullptr) {
    failure.operation = to_string(work->signature);
    failure.tensor = work->label.data();
    failure.what += ", in " + work->text();
  }
  failure.what += ": " + std::string(error.what());
  world_.fail(std::move(failure));
}

}  // namespace leat::comm::nccl
