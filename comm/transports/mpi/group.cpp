#include "leat/comm/transports/mpi/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/rank_calls.h"

namespace leat::comm::mpi {

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

Call* Group::find_call(std::uint64_t number) const noexcept {
  for (const auto& one : calls_) {
    if (one->number() == number) return one.get();
  }
  return nullptr;
}

Call& Group::call(std::uint64_t number) {
  if (Call* const one = find_call(number)) return *one;
  if (unused_.empty()) unused_.push_back(std::make_unique<Call>(*this));
  calls_.push_back(std::move(unused_.back()));
  unused_.pop_back();
  calls_.back()->reset(number);
  return *calls_.back();
}

void Group::recycle(Call& call) {
  const auto at = std::find_if(calls_.begin(), calls_.end(),
                               [&](const auto& one) { return one.get() == &call; });
  unused_.push_back(std::move(*at));
  *at = std::move(calls_.back());
  calls_.pop_back();
}

void Group::begin(Operation& operation) {
  switch (operation.signature.kind) {
    case OperationKind::kSend: begin_send(operation); break;
    case OperationKind::kRecv: begin_recv(operation); break;
    default: call(operation.signature.number).begin(operation);
  }
}

void Group::received(int from_world, const Header& header, const std::byte* data) {
  const int from = rank_of(from_world);
  switch (header.kind) {
    case MessageKind::kCall:
      // After this rank has left, it begins no other call; the sender finds that out.
      if (!has_left(rank_) || find_call(header.signature.number) != nullptr) {
        call(header.signature.number).received(from, header, data);
      }
      break;
    case MessageKind::kSend: offered(from, header, data, nullptr); break;
    case MessageKind::kTaken: taken(header.value); break;
    case MessageKind::kNotices:
      for (std::size_t at = 0; at < header.bytes; at += sizeof(Notice)) {
        Notice notice;
        std::memcpy(&notice, data + at, sizeof notice);
        deliver({&notice, 1});
      }
      break;
    case MessageKind::kLeave: left(from); break;
    default: break;  // of the world, not of a group
  }
}

// ---- sends and receives

void Group::begin_send(Operation& operation) {
  const int to = operation.peer;
  Header header{.kind = MessageKind::kSend,
                .context = context_,
                .signature = operation.signature,
                .value = ++last_id_};
  if (to == rank_) return offered(rank_, header, nullptr, &operation);
  if (has_left(to)) fail_message(operation, nullptr);
  const std::uint64_t bytes = operation.signature.count * gpu::size_of(operation.signature.dtype);
  const bool is_small = bytes <= kInlineBytes;
  if (is_small) {
    header.bytes = static_cast<std::uint32_t>(bytes);
  } else {
    header.tag = wire().next_tags();
  }
  sends_.push_back({.operation = &operation, .id = last_id_, .is_sent = is_small});
  wire().send(world_rank(to), header, operation.in);
  if (is_small) return;
  wire().start({.peer = world_rank(to),
                .tag = header.tag,
                .sends = true,
                .waits_for_receiver = true,
                .memory = static_cast<std::byte*>(const_cast<void*>(operation.in)),
                .bytes = bytes,
                .owner = this,
                .stage = kSendData,
                .item = last_id_});
}

void Group::begin_recv(Operation& operation) {
  const auto found = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& one) {
    return one.from == operation.peer && one.header.signature.number == operation.signature.number;
  });
  if (found == offers_.end()) {
    if (has_left(operation.peer)) fail_message(operation, nullptr);
    recvs_.push_back(&operation);
    return;
  }
  match(operation, found->from, found->header, found->data.data(), found->own);
  unused_offers_.splice(unused_offers_.begin(), offers_, found);
}

void Group::offered(int from, const Header& header, const std::byte* data, Operation* own) {
  const auto found = std::find_if(recvs_.begin(), recvs_.end(), [&](const Operation* one) {
    return one->peer == from && one->signature.number == header.signature.number;
  });
  if (found != recvs_.end()) {
    Operation& recv = **found;
    recvs_.erase(found);
    return match(recv, from, header, data, own);
  }
  if (unused_offers_.empty()) unused_offers_.emplace_back();
  Offer& offer = unused_offers_.front();
  offer.from = from;
  offer.header = header;
  offer.data.assign(data, data + header.bytes);
  offer.own = own;
  offers_.splice(offers_.end(), unused_offers_, unused_offers_.begin());
}

void Group::match(Operation& recv, int from, const Header& header, const std::byte* data,
                  Operation* own) {
  const Signature& sent = header.signature;
  if (sent.count != recv.signature.count || sent.dtype != recv.signature.dtype) {
    fail_message(recv, &sent);
  }
  const std::uint64_t bytes = sent.count * gpu::size_of(sent.dtype);
  if (own != nullptr) {
    if (bytes > 0) std::memmove(recv.out, own->in, bytes);
    engine_.finish(*own, false);
    engine_.finish(recv, false);
    return;
  }
  if (bytes <= kInlineBytes) {
    if (bytes > 0) std::memcpy(recv.out, data, bytes);
    tell_taken(from, header.value);
    engine_.finish(recv, false);
    return;
  }
  receives_.push_back({.operation = &recv, .id = ++last_id_, .send_id = header.value});
  wire().start({.peer = world_rank(from),
                .tag = header.tag,
                .memory = static_cast<std::byte*>(recv.out),
                .bytes = bytes,
                .owner = this,
                .stage = kRecvData,
                .rank = from,
                .item = last_id_});
}

void Group::tell_taken(int from, std::uint64_t send_id) {
  wire().send(world_rank(from),
              {.kind = MessageKind::kTaken, .context = context_, .value = send_id});
}

void Group::transferred(const Transfer& transfer) {
  if (transfer.stage == kSendData) {
    const auto sent = std::find_if(sends_.begin(), sends_.end(),
                                   [&](const Sending& one) { return one.id == transfer.item; });
    sent->is_sent = true;
    return finish_send(static_cast<std::size_t>(sent - sends_.begin()));
  }
  const auto received = std::find_if(receives_.begin(), receives_.end(),
                                     [&](const auto& one) { return one.id == transfer.item; });
  const Receiving done = *received;
  receives_.erase(received);
  tell_taken(transfer.rank, done.send_id);
  engine_.finish(*done.operation, true);
}

void Group::taken(std::uint64_t id) {
  const auto sent =
      std::find_if(sends_.begin(), sends_.end(), [&](const Sending& one) { return one.id == id; });
  if (sent == sends_.end()) return;
  sent->is_taken = true;
  finish_send(static_cast<std::size_t>(sent - sends_.begin()));
}

void Group::finish_send(std::size_t at) {
  const Sending send = sends_[at];
  if (!send.is_sent || !send.is_taken) return;
  sends_.erase(sends_.begin() + static_cast<std::ptrdiff_t>(at));
  engine_.finish(*send.operation, false);
}

// ---- notices

void Group::deliver(std::span<const Notice> notices) {
  if (!listener_) {
    unheard_.insert(unheard_.end(), notices.begin(), notices.end());
    return;
  }
  for (const Notice& one : notices) static_cast<void>(listener_->try_send(Notice(one)));
}

void Group::listen(const Channel<Notice>& notices) {
  listener_ = notices;
  deliver(std::exchange(unheard_, {}));
}

// ---- leaving

void Group::leave() {
  if (has_left(rank_)) return;
  left_[static_cast<std::size_t>(rank_)] = 1;
  ++left_count_;
  listener_.reset();
  std::erase_if(calls_, [](const auto& one) { return !one->has_begun(); });
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    wire().send(world_rank(rank), {.kind = MessageKind::kLeave, .context = context_});
  }
}

void Group::world_rank_left(int world_rank) {
  if (const int rank = rank_of(world_rank); rank >= 0) left(rank);
}

void Group::left(int rank) {
  if (has_left(rank)) return;
  left_[static_cast<std::size_t>(rank)] = 1;
  ++left_count_;
  for (const auto& one : calls_) one->check_left(rank);
  for (const Operation* const one : recvs_) {
    if (one->peer == rank) fail_message(*one, nullptr);
  }
  for (const Sending& one : sends_) {
    if (one.operation->peer == rank && !one.is_taken) fail_message(*one.operation, nullptr);
  }
}

std::vector<int> Group::missing(const Operation& operation) const {
  if (operation.peer >= 0) return {world_rank(operation.peer)};
  std::vector<int> ranks;
  std::vector<int> busy;
  const Call* const call = find_call(operation.signature.number);
  for (int rank = 0; call != nullptr && rank < size(); ++rank) {
    if (rank != rank_ && call->signature_of(rank) == nullptr) ranks.push_back(world_rank(rank));
    if (call->transfers(rank) > 0) busy.push_back(world_rank(rank));
  }
  // All have called. Ranks that wait for the one that is lost have been silent for less long.
  if (ranks.empty() && !busy.empty()) ranks.push_back(engine_.most_silent(busy));
  return ranks;
}

// ---- failing

void Group::fail_collective(const Call& call, const Operation& operation, int blamed) {
  std::vector<RankCall> calls;
  for (int rank = 0; rank < size(); ++rank) {
    std::string text = has_left(rank) ? "has left" : "nothing yet";
    if (rank == rank_) {
      text = describe(operation);
    } else if (const Signature* const other = call.signature_of(rank)) {
      text = to_string(*other);
    }
    calls.push_back({world_rank(rank), std::move(text)});
  }
  engine_.fail(mismatch(operation, world_rank(blamed), calls));
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
