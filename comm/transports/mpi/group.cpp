#include "leat/comm/transports/mpi/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/rank_calls.h"

namespace leat::comm::mpi {
namespace {

// A send's name for its rank, of those that are under way.
std::uint64_t name_of(const Operation& send) { return reinterpret_cast<std::uintptr_t>(&send); }

std::uint64_t bytes_of(const Signature& signature) {
  return count_of_data(signature) * gpu::size_of(signature.dtype);
}

}  // namespace

Group::Group(Engine& engine, std::uint64_t context, std::vector<int> members, int rank)
    : engine_(engine),
      context_(context),
      members_(std::move(members)),
      rank_(rank),
      left_(members_.size(), 0) {}

Wire& Group::wire() const noexcept { return engine_.wire(); }

int Group::rank_of(int world_rank) const noexcept {
  const auto at = static_cast<std::size_t>(world_rank);
  if (at < members_.size() && members_[at] == world_rank) return world_rank;  // mostly
  const auto found = std::find(members_.begin(), members_.end(), world_rank);
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

Group::Calls::iterator Group::find_call(std::uint64_t number) noexcept {
  return std::find_if(calls_.begin(), calls_.end(),
                      [&](const Call& one) { return one.number() == number; });
}

Call& Group::call(std::uint64_t number) {
  if (const auto found = find_call(number); found != calls_.end()) return *found;
  if (unused_.empty()) unused_.emplace_back(*this);
  calls_.splice(calls_.end(), unused_, unused_.begin());
  calls_.back().reset(number);
  return calls_.back();
}

void Group::recycle(const Call& call) {
  unused_.splice(unused_.begin(), calls_, find_call(call.number()));
}

void Group::begin(Operation& operation) {
  switch (operation.signature.kind) {
    case OperationKind::kSend: return begin_send(operation);
    case OperationKind::kRecv:
      recvs_.push_back(&operation);
      if (!match(operation.peer, operation.signature.number) && has_left(operation.peer)) {
        fail_message(operation, nullptr);
      }
      return;
    default: call(operation.signature.number).begin(operation);
  }
}

void Group::received(int from_world, const Header& header, const std::byte* data) {
  const int from = rank_of(from_world);
  if (from < 0) return;
  switch (header.kind) {
    case MessageKind::kCall:
      // After this rank has left, it begins no other call; the sender finds that out.
      if (!has_left(rank_) || find_call(header.signature.number) != calls_.end()) {
        call(header.signature.number).received(from, header, data);
      }
      break;
    case MessageKind::kSend: {
      if (unused_offers_.empty()) unused_offers_.emplace_back();
      KeptMessage& offer = unused_offers_.front();
      offer.from = from;
      offer.header = header;
      offer.data.assign(data, data + header.bytes);
      offers_.splice(offers_.end(), unused_offers_, unused_offers_.begin());
      match(from, header.signature.number);
      break;
    }
    case MessageKind::kTaken: end_send(header.value, &Sending::is_taken); break;
    case MessageKind::kNotices: {
      const std::size_t before = unheard_.size();
      unheard_.resize(before + header.bytes / sizeof(Notice));
      std::memcpy(unheard_.data() + before, data, header.bytes);
      for (std::size_t i = before; i < unheard_.size(); ++i) unheard_[i].from = from;
      hand_notices();
      break;
    }
    case MessageKind::kLeave: left(from); break;
    default: break;  // of the world, not of a group
  }
}

// ---- sends and receives

void Group::begin_send(Operation& operation) {
  const int to = world_rank(operation.peer);
  if (has_left(operation.peer)) fail_message(operation, nullptr);
  Header header{.kind = MessageKind::kSend,
                .context = context_,
                .signature = operation.signature,
                .value = name_of(operation)};
  const std::uint64_t bytes = bytes_of(operation.signature);
  const bool is_small = bytes <= kInlineBytes;
  if (is_small) {
    header.bytes = static_cast<std::uint32_t>(bytes);
  } else {
    header.tag = wire().next_tags();
  }
  sends_.push_back({.operation = &operation, .is_sent = is_small});
  wire().send(to, header, operation.in);
  if (is_small) return;
  wire().start({.peer = to,
                .tag = header.tag,
                .sends = true,
                .waits_for_receiver = true,
                .memory = static_cast<std::byte*>(const_cast<void*>(operation.in)),
                .bytes = bytes,
                .done =
                    [](const Transfer& sent) {
                      static_cast<Group*>(sent.owner)->end_send(sent.item, &Sending::is_sent);
                    },
                .owner = this,
                .item = header.value});
}

// A send ends once both are true.
void Group::end_send(std::uint64_t name, bool Sending::*what) {
  const auto sent = std::find_if(sends_.begin(), sends_.end(), [&](const Sending& one) {
    return name_of(*one.operation) == name;
  });
  if (sent == sends_.end()) return;
  (*sent).*what = true;
  if (!sent->is_sent || !sent->is_taken) return;
  Operation& operation = *sent->operation;
  sends_.erase(sent);
  engine_.finish(operation, false);
}

// The first recv and the first send of that key, if both are here. Returns whether they were.
bool Group::match(int from, std::uint64_t key) {
  const auto waiting = std::find_if(recvs_.begin(), recvs_.end(), [&](const Operation* one) {
    return one->peer == from && one->signature.number == key;
  });
  const auto offer = std::find_if(offers_.begin(), offers_.end(), [&](const KeptMessage& one) {
    return one.from == from && one.header.signature.number == key;
  });
  if (waiting == recvs_.end() || offer == offers_.end()) return false;
  Operation& recv = **waiting;
  const Header& header = offer->header;
  if (header.signature.count != recv.signature.count ||
      header.signature.dtype != recv.signature.dtype ||
      header.signature.on_device != recv.signature.on_device) {
    fail_message(recv, &header.signature);
  }
  recvs_.erase(waiting);
  unused_offers_.splice(unused_offers_.begin(), offers_, offer);
  const std::uint64_t bytes = bytes_of(recv.signature);
  if (bytes <= kInlineBytes) {
    if (bytes > 0) std::memcpy(recv.out, offer->data.data(), bytes);
    end_recv(recv, header.value, false);
    return true;
  }
  ++receiving_;
  wire().start({.peer = world_rank(from),
                .tag = header.tag,
                .memory = static_cast<std::byte*>(recv.out),
                .bytes = bytes,
                .done =
                    [](const Transfer& received) {
                      auto& self = *static_cast<Group*>(received.owner);
                      --self.receiving_;
                      self.end_recv(*received.operation, received.item, true);
                    },
                .owner = this,
                .operation = &recv,
                .item = header.value});
  return true;
}

void Group::end_recv(Operation& recv, std::uint64_t send, bool read_memory) {
  wire().send(world_rank(recv.peer),
              {.kind = MessageKind::kTaken, .context = context_, .value = send});
  engine_.finish(recv, read_memory);
}

// ---- notices

void Group::post(int to, std::span<const Notice> notices) {
  while (!notices.empty()) {
    const auto some = notices.first(std::min(notices.size(), kInlineBytes / sizeof(Notice)));
    wire().send(world_rank(to),
                {.kind = MessageKind::kNotices,
                 .bytes = static_cast<std::uint32_t>(some.size_bytes()),
                 .context = context_},
                some.data());
    notices = notices.subspan(some.size());
  }
}

void Group::hand_notices() {
  if (!listener_) return;
  for (const Notice& one : unheard_) static_cast<void>(listener_->try_send(Notice(one)));
  unheard_.clear();
}

void Group::listen(const Channel<Notice>& notices) {
  listener_ = notices;
  hand_notices();
}

// ---- leaving

void Group::leave() {
  if (has_left(rank_)) return;
  left_[static_cast<std::size_t>(rank_)] = 1;
  listener_.reset();
  calls_.remove_if([](const Call& one) { return !one.has_begun(); });
  wire().send_to_others(members_, {.kind = MessageKind::kLeave, .context = context_});
}

void Group::left(int rank) {
  if (has_left(rank)) return;
  left_[static_cast<std::size_t>(rank)] = 1;
  for (Call& one : calls_) one.check_left(rank);
  for (const Operation* const one : recvs_) {
    if (one->peer == rank) fail_message(*one, nullptr);
  }
  for (const Sending& one : sends_) {
    if (one.operation->peer == rank && !one.is_taken) fail_message(*one.operation, nullptr);
  }
}

bool Group::is_over() const noexcept {
  return has_left(rank_) && calls_.empty() && sends_.empty() && recvs_.empty() && receiving_ == 0 &&
         std::count(left_.begin(), left_.end(), 0) == 0;
}

std::vector<int> Group::missing(const Operation& operation) {
  if (operation.peer >= 0) return {world_rank(operation.peer)};
  const auto call = find_call(operation.signature.number);
  return call != calls_.end() ? call->missing() : std::vector<int>();
}

void Group::fail_message(const Operation& operation, const Signature* other) {
  const int peer = world_rank(operation.peer);
  std::array<RankCall, 2> calls = {RankCall{world_rank(rank_), describe(operation, peer)},
                                   RankCall{peer, "has left"}};
  if (other != nullptr) {
    Operation there;
    there.signature = *other;
    calls[1].text = describe(there, world_rank(rank_));
  }
  if (calls[1].rank < calls[0].rank) std::swap(calls[0], calls[1]);
  engine_.fail(mismatch(operation, peer, calls));
}

}  // namespace leat::comm::mpi
