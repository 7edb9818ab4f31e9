#include "leat/comm/transports/nccl/transport.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/scheduler.h"

namespace leat::comm::nccl {
namespace {

constexpr std::uint64_t kSalt = 0x6C6561746E63636CU;

std::size_t place(std::uint64_t number, std::size_t size) noexcept {
  return static_cast<std::size_t>(number) % size;
}

}  // namespace

NcclTransport::NcclTransport(std::shared_ptr<comm::Transport> beside, std::shared_ptr<Hub> hub,
                             gpu::Device device)
    : beside_(std::move(beside)), hub_(std::move(hub)), device_(std::move(device)), turns_(64) {}

NcclTransport::~NcclTransport() {
  const Shield shield;
  NcclTransport::leave();
  // What has ended is still being put away, on other threads.
  while (!works_.is_idle()) sleep_for(std::chrono::microseconds(50));
  const SpinLockGuard guard(lock_);
  if (lane_ != nullptr) lane_->close();
  for (const auto& [key, messages] : messages_) {
    if (messages.lane != nullptr) messages.lane->close();
  }
}

std::shared_ptr<comm::Transport> NcclTransport::subset(std::uint64_t context,
                                                       std::span<const int> members) {
  return std::make_shared<NcclTransport>(beside_->subset(context, members), hub_, device_);
}

void NcclTransport::begin(Operation& operation) noexcept {
  if (!operation.signature.on_device) {
    if (operation.peer < 0) collective_came(operation.signature.number, nullptr);
    return beside_->begin(operation);
  }
  Work* work = nullptr;
  try {
    open_lanes(operation);
    work = &prepare(operation);
  } catch (const std::exception& error) {
    const std::string rank = std::to_string(world_rank());
    const std::string what = to_string(operation.signature);
    world().fail({.peer = world_rank(),
                  .operation = what,
                  .what = "rank " + rank + " cannot begin " + what + ": " + error.what()});
  }
  // From here on the operation may be gone at any time, if the world fails.
  if (!world().add(operation, world_rank(), context())) {
    if (work != nullptr) works_.give(*work);
    return world().finish(operation, &world().failure());
  }
  if (work->agreement.peer >= 0) {
    Messages& of = messages_of(work->agreement.peer, work->signature.kind == OperationKind::kRecv);
    const SpinLockGuard guard(lock_);
    of.begun.push_back(work);
  }
  works_.begin();
  beside_->begin(work->agreement);
}

// Copies all that is needed of it.
Work& NcclTransport::prepare(Operation& operation) {
  Work& work = works_.take(operation);
  work.owner = this;
  work.agreement = {.signature = operation.signature,
                    .peer = operation.peer,
                    .label = work.label[0] != '\0' ? work.label.data() : nullptr,
                    .samples = operation.samples,
                    .finished = &NcclTransport::agreed,
                    .owner = &work,
                    .is_patient = true,
                    .is_hidden = true};
  return work;
}

// On any thread or fiber.
void NcclTransport::agreed(Operation& agreement, const Failure* failure) noexcept {
  Work& work = *static_cast<Work*>(agreement.owner);
  NcclTransport& self = *work.owner;
  if (failure != nullptr)
    return self.works_.end();  // the world has finished the operation, or will
  try {
    if (agreement.peer < 0) {
      self.collective_came(agreement.signature.number, &work);
    } else {
      self.message_came(work);
    }
  } catch (const std::exception& error) {
    self.world().fail({.peer = self.world_rank(), .operation = "nccl", .what = error.what()});
  }
  self.works_.release(work);
}

// ---- collectives

// Launches those whose turn it is. A number comes once on each rank.
void NcclTransport::collective_came(std::uint64_t number, Work* work) noexcept {
  Lane* lane = nullptr;
  {
    const SpinLockGuard guard(lock_);
    if (number - next_ >= turns_.size()) {
      std::vector<Turn> longer(std::max<std::size_t>(2 * turns_.size(), number - next_ + 1));
      for (std::uint64_t i = next_; i < next_ + turns_.size(); ++i) {
        longer[place(i, longer.size())] = turns_[place(i, turns_.size())];
      }
      turns_ = std::move(longer);
    }
    turns_[place(number, turns_.size())] = {.has_come = true, .work = work};
    for (;; ++next_) {
      Turn& turn = turns_[place(next_, turns_.size())];
      if (!turn.has_come) break;
      if (turn.work != nullptr) {
        works_.begin();
        lane = lane_.get();
        lane->push(*turn.work);
      }
      turn = {};
    }
  }
  if (lane != nullptr) lane->ring();
}

// ---- messages

// The first that has begun with that key: the ones before it are of messages that came before.
Work* NcclTransport::take_first(Messages& messages, std::uint64_t key) noexcept {
  const auto first = std::ranges::find_if(
      messages.begun, [&](const Work* one) { return one->signature.number == key; });
  if (first == messages.begun.end()) return nullptr;
  Work* const work = *first;
  messages.begun.erase(first);
  return work;
}

void NcclTransport::message_came(Work& work) {
  const bool received = work.signature.kind == OperationKind::kRecv;
  Messages& of = messages_of(work.agreement.peer, received);
  const std::uint64_t key = work.signature.number;
  if (work.agreement.peer == rank()) {
    if (!received) return;  // its recv launches both
    Messages& sent = messages_of(rank(), false);
    {
      const SpinLockGuard guard(lock_);
      Work* const to = take_first(of, key);
      Work* const from = take_first(sent, key);
      from->pair = to;
      works_.begin();
      works_.begin();
      of.lane->push(*from);
    }
    of.lane->ring();
  } else if (received) {
    {
      const SpinLockGuard guard(lock_);
      ++of.agreed;
    }
    ask_for_keys(of);
  } else {
    send_key(of, static_cast<std::int64_t>(key));
  }
}

void NcclTransport::send_key(Messages& messages, std::int64_t key) noexcept {
  KeyNotice* notice = nullptr;
  {
    const SpinLockGuard guard(lock_);
    works_.begin();
    messages.lane->push(*take_first(messages, static_cast<std::uint64_t>(key)));
    if (unused_keys_.empty()) unused_keys_.emplace_back();
    keys_.splice(keys_.end(), unused_keys_, unused_keys_.begin());
    notice = &keys_.back();
    notice->self = std::prev(keys_.end());
    notice->owner = this;
    notice->key = key;
    notice->operation = {.signature = {.kind = OperationKind::kSend,
                                       .dtype = DType::kInt64,
                                       .count = 1,
                                       .number = messages.ordered++},
                         .peer = 1,
                         .in = &notice->key,
                         .owner = notice,
                         .is_patient = true,
                         .is_hidden = true};
  }
  notice->operation.finished = [](Operation& operation, const Failure* /*failure*/) noexcept {
    auto& sent = *static_cast<KeyNotice*>(operation.owner);
    NcclTransport& self = *sent.owner;
    {
      const SpinLockGuard guard(self.lock_);
      self.unused_keys_.splice(self.unused_keys_.begin(), self.keys_, sent.self);
    }
    self.works_.end();
  };
  messages.lane->ring();
  works_.begin();
  messages.beside->begin(notice->operation);
}

// One at a time. A key that is here already comes within begin().
void NcclTransport::ask_for_keys(Messages& messages) noexcept {
  for (bool is_first = true;; is_first = false) {
    {
      const SpinLockGuard guard(lock_);
      if (is_first && messages.is_in_loop) return;
      messages.is_in_loop = !messages.is_asking && messages.ordered < messages.agreed;
      if (!messages.is_in_loop) return;
      messages.is_asking = true;
      messages.next = {.signature = {.kind = OperationKind::kRecv,
                                     .dtype = DType::kInt64,
                                     .count = 1,
                                     .number = messages.ordered++},
                       .peer = 0,
                       .out = &messages.key,
                       .finished = &NcclTransport::key_came,
                       .owner = &messages,
                       .is_patient = true,
                       .is_hidden = true};
    }
    works_.begin();
    messages.beside->begin(messages.next);
  }
}

void NcclTransport::key_came(Operation& next, const Failure* failure) noexcept {
  auto& messages = *static_cast<Messages*>(next.owner);
  NcclTransport& self = *messages.owner;
  if (failure == nullptr) {
    {
      const SpinLockGuard guard(self.lock_);
      self.works_.begin();
      messages.lane->push(*take_first(messages, static_cast<std::uint64_t>(messages.key)));
      messages.is_asking = false;
    }
    messages.lane->ring();
    self.ask_for_keys(messages);
  }
  self.works_.end();
}

// ---- lanes

// Another communicator of these ranks, or of some, for a lane's own use.
std::shared_ptr<comm::Transport> NcclTransport::beside_of(std::uint64_t salt,
                                                          std::span<const int> members) {
  return beside_->subset(mix(context() ^ mix(kSalt + salt)), members);
}

// Made on the caller's thread, which may wait for a lane that has ended.
void NcclTransport::open_lanes(const Operation& operation) {
  const std::scoped_lock opening(opening_);
  if (operation.peer < 0) {
    {
      const SpinLockGuard guard(lock_);
      if (lane_ != nullptr) return;
    }
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    std::shared_ptr<Lane> made = hub_->make_lane(device_, beside_of(0, all));
    const SpinLockGuard guard(lock_);
    lane_ = std::move(made);
    return;
  }
  const bool received = operation.signature.kind == OperationKind::kRecv;
  Messages& of = messages_of(operation.peer, received);
  {
    const SpinLockGuard guard(lock_);
    if (of.lane != nullptr) return;
  }
  const int from = received ? operation.peer : rank();
  const int to = received ? rank() : operation.peer;
  if (from == to && !received) return;  // the recv launches both
  std::vector<int> both = {from, to};
  if (from == to) both.pop_back();
  const auto salt = 1 + static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(size()) +
                    static_cast<std::uint64_t>(to);
  std::shared_ptr<comm::Transport> beside = beside_of(salt, both);
  std::shared_ptr<Lane> made = hub_->make_lane(device_, beside);
  const SpinLockGuard guard(lock_);
  of.beside = std::move(beside);
  of.lane = std::move(made);
}

NcclTransport::Messages& NcclTransport::messages_of(int peer, bool received) {
  const SpinLockGuard guard(lock_);
  Messages& of = messages_[{peer, received}];
  of.owner = this;
  return of;
}

}  // namespace leat::comm::nccl
