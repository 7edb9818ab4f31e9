#include "leat/comm/transports/mpi/call.h"

#include <algorithm>
#include <cstring>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/group.h"

namespace leat::comm::mpi {
namespace {

// Half a chunk, so that receiving and summing overlap, but not so little that the messages count,
// and not so much that what is received has left a core's cache when it is summed.
constexpr std::uint64_t kLeastBlockBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{256} << 10;

}  // namespace

Call::Call(Group& group)
    : group_(group),
      peers_(static_cast<std::size_t>(group.size())),
      inputs_(static_cast<std::size_t>(group.size())) {}

void Call::reset(std::uint64_t number) noexcept {
  for (Peer& one : peers_) {
    one.is_here = false;
    one.transfers = 0;
    one.give = one.take = one.back = one.result = {};
  }
  number_ = number;
  operation_ = nullptr;
  here_ = 0;
  in_flight_ = 0;
  block_ = 0;
  summed_ = 0;
}

// ---- where things are

std::pair<std::uint64_t, std::uint64_t> Call::chunk(int rank) const noexcept {
  return chunk_of(signature_.count, rank, group_.size());
}

std::uint64_t Call::chunk_bytes(int rank) const noexcept {
  const auto [first, second] = chunk(rank);
  return (second - first) * gpu::size_of(signature_.dtype);
}

const std::byte* Call::input() const noexcept {
  return static_cast<const std::byte*>(operation_->in);
}

std::byte* Call::output() const noexcept { return static_cast<std::byte*>(operation_->out); }

std::uint64_t Call::blocks(int rank) const noexcept {
  if (block_ == 0) return 0;
  const auto [first, second] = chunk(rank);
  return (second - first + block_ - 1) / block_;
}

std::pair<std::uint64_t, std::uint64_t> Call::block_at(int rank,
                                                       std::uint64_t block) const noexcept {
  const auto [first, second] = chunk(rank);
  const std::uint64_t begin = first + block * block_;
  const std::size_t size = gpu::size_of(signature_.dtype);
  return {begin * size, std::min(block_, second - begin) * size};
}

std::byte* Call::scratch(int rank, std::uint64_t block) const noexcept {
  const std::uint64_t place = static_cast<std::uint64_t>(rank) * window_ + block % window_;
  return scratch_.get() + place * block_ * gpu::size_of(signature_.dtype);
}

// ---- agreement

void Call::begin(Operation& operation) {
  operation_ = &operation;
  signature_ = operation.signature;
  is_small_ = signature_.count <= kInlineBytes / gpu::size_of(signature_.dtype);
  announce();
  if (!is_small_) prepare();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    if (peer(rank).is_here) {
      agree(rank);
    } else if (group_.has_left(rank)) {
      check_left(rank);
    }
  }
  advance();
}

void Call::received(int from, const Header& header, const std::byte* data) {
  Peer& one = peer(from);
  one.is_here = true;
  one.header = header;
  one.data.assign(data, data + header.bytes);
  ++here_;
  if (operation_ == nullptr) return;
  agree(from);
  advance();
}

void Call::check_left(int from) {
  if (operation_ != nullptr && !peer(from).is_here) {
    group_.fail_collective(*this, *operation_, from);
  }
}

// Tells all ranks what this one calls, with its data if that is little.
void Call::announce() {
  Header header{.kind = MessageKind::kCall,
                .is_absent = combines() && operation_->in == nullptr,
                .context = group_.context(),
                .signature = signature_,
                .value = operation_->samples};
  header.tag = tag_ = group_.wire().next_tags();
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  if (is_small_ && combines() && !header.is_absent) {
    data = operation_->in;
    bytes = signature_.count * gpu::size_of(signature_.dtype);
  } else if (is_small_ && signature_.kind == OperationKind::kAllGather) {
    data = operation_->in;
    bytes = chunk_bytes(group_.rank());
  } else if (is_small_ && signature_.root == group_.rank()) {
    data = operation_->out;
    bytes = signature_.count * gpu::size_of(signature_.dtype);
  }
  header.bytes = static_cast<std::uint32_t>(bytes);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank != group_.rank()) group_.wire().send(group_.world_rank(rank), header, data);
  }
}

void Call::prepare() {
  const std::size_t size = gpu::size_of(signature_.dtype);
  if (signature_.kind == OperationKind::kAllGather) {
    std::byte* const own = output() + chunk(group_.rank()).first * size;
    if (own != input()) std::memmove(own, input(), chunk_bytes(group_.rank()));
  }
  if (!combines()) return;
  // The same on all ranks. One message carries a block, if an element is not larger than that.
  const std::uint64_t message = group_.wire().message_bytes();
  const std::uint64_t chunk_size =
      signature_.count / static_cast<std::uint64_t>(group_.size()) * size;
  const std::uint64_t bytes = std::clamp(chunk_size / 2, kLeastBlockBytes, kMostBlockBytes);
  block_ = std::max<std::uint64_t>(1, std::min(bytes, message) / size);
  window_ = block_ * size <= message ? kWindow : 1;
  const std::size_t wanted = static_cast<std::size_t>(group_.size()) * window_ * block_ * size;
  if (scratch_bytes_ < wanted) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
    scratch_bytes_ = wanted;
  }
}

// Both ranks have begun: are they doing the same? Then data may go.
void Call::agree(int rank) {
  const Signature& other = peer(rank).header.signature;
  if (other != signature_) group_.fail_collective(*this, *operation_, rank);
  if (is_small_) return;
  switch (signature_.kind) {
    case OperationKind::kAllGather: {
      const std::size_t size = gpu::size_of(signature_.dtype);
      start_whole(rank, true, output() + chunk(group_.rank()).first * size,
                  chunk_bytes(group_.rank()));
      start_whole(rank, false, output() + chunk(rank).first * size, chunk_bytes(rank));
      return;
    }
    case OperationKind::kBroadcast: {
      const std::uint64_t bytes = signature_.count * gpu::size_of(signature_.dtype);
      if (signature_.root == group_.rank()) start_whole(rank, true, output(), bytes);
      if (signature_.root == rank) start_whole(rank, false, output(), bytes);
      return;
    }
    default:
      give(rank);
      result(rank);
      take(rank);
  }
}

// ---- streams

void Call::start(int rank, Stage stage, std::uint64_t block, bool sends, std::byte* memory,
                 std::uint64_t bytes) {
  const int second = stage == kBack || stage == kResult ? 1 : 0;
  group_.wire().start({.peer = group_.world_rank(rank),
                       .tag = (sends ? tag_ : peer(rank).header.tag) + second,
                       .sends = sends,
                       .memory = memory,
                       .bytes = bytes,
                       .owner = this,
                       .stage = stage,
                       .rank = rank,
                       .item = block});
  ++in_flight_;
  ++peer(rank).transfers;
}

void Call::start_whole(int rank, bool sends, std::byte* memory, std::uint64_t bytes) {
  if (bytes > 0) start(rank, kWhole, 0, sends, memory, bytes);
}

void Call::give(int rank) {
  if (operation_->in == nullptr) return;
  Stream& stream = peer(rank).give;
  for (; stream.started < std::min(blocks(rank), stream.done + window_); ++stream.started) {
    const auto [at, bytes] = block_at(rank, stream.started);
    start(rank, kGive, stream.started, true, const_cast<std::byte*>(input()) + at, bytes);
  }
}

void Call::take(int rank) {
  Peer& from = peer(rank);
  if (from.header.is_absent) return;
  const std::uint64_t until = std::min(blocks(group_.rank()), summed_ + window_);
  for (; from.take.started < until; ++from.take.started) {
    start(rank, kTake, from.take.started, false, scratch(rank, from.take.started),
          block_at(group_.rank(), from.take.started).second);
  }
}

void Call::back(int rank) {
  if (signature_.kind != OperationKind::kAllReduce) return;
  Stream& stream = peer(rank).back;
  for (; stream.started < std::min(summed_, stream.done + window_); ++stream.started) {
    const auto [at, bytes] = block_at(group_.rank(), stream.started);
    start(rank, kBack, stream.started, true, output() + at, bytes);
  }
}

void Call::result(int rank) {
  if (signature_.kind != OperationKind::kAllReduce) return;
  Peer& from = peer(rank);
  std::uint64_t until = std::min(blocks(rank), from.result.done + window_);
  if (operation_->in != nullptr) until = std::min(until, from.give.done);
  for (; from.result.started < until; ++from.result.started) {
    const auto [at, bytes] = block_at(rank, from.result.started);
    start(rank, kResult, from.result.started, false, output() + at, bytes);
  }
}

void Call::transferred(const Transfer& transfer) {
  Peer& one = peer(transfer.rank);
  --in_flight_;
  --one.transfers;
  group_.engine().hear(transfer.peer);
  switch (static_cast<Stage>(transfer.stage)) {
    case kGive:
      one.give.ended(transfer.item);
      give(transfer.rank);
      result(transfer.rank);
      break;
    case kTake: one.take.ended(transfer.item); break;
    case kBack:
      one.back.ended(transfer.item);
      back(transfer.rank);
      break;
    case kResult:
      one.result.ended(transfer.item);
      result(transfer.rank);
      break;
    case kWhole: break;
  }
  advance();
}

void Call::weigh() {
  std::uint64_t total = operation_->samples;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank != group_.rank()) total += peer(rank).header.value;
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    const std::uint64_t samples =
        rank == group_.rank() ? operation_->samples : peer(rank).header.value;
    inputs_[static_cast<std::size_t>(rank)].weight =
        signature_.is_weighted ? weight_of(samples, total) : 1.0F;
  }
}

// Sums the blocks of this rank's chunk for which all parts are here.
void Call::sum_blocks() {
  const int own = group_.rank();
  for (; summed_ < blocks(own); ++summed_) {
    const auto [at, bytes] = block_at(own, summed_);
    if (summed_ == 0) weigh();
    for (int rank = 0; rank < group_.size(); ++rank) {
      Peer& one = peer(rank);
      Input& input = inputs_[static_cast<std::size_t>(rank)];
      if (rank == own) {
        input.data = operation_->in == nullptr ? nullptr : this->input() + at;
      } else if (one.header.is_absent) {
        input.data = nullptr;
      } else {
        if (one.take.done == summed_) return;
        input.data = scratch(rank, summed_);
      }
    }
    const bool scatters = signature_.kind == OperationKind::kReduceScatter;
    const std::uint64_t chunk_begin = chunk(own).first * gpu::size_of(signature_.dtype);
    void* const sum = output() + (scatters ? at - chunk_begin : at);
    reduce_chunk(signature_.dtype, signature_.reduction, inputs_, {&sum, 1},
                 bytes / gpu::size_of(signature_.dtype));
  }
}

// ---- the end

void Call::advance() {
  if (operation_ == nullptr || here_ < group_.size() - 1) return;
  if (is_small_) {
    finish_small();
  } else if (combines()) {
    const std::uint64_t before = summed_;
    sum_blocks();
    for (int rank = 0; summed_ != before && rank < group_.size(); ++rank) {
      if (rank == group_.rank()) continue;
      take(rank);
      back(rank);
    }
  }
  if (in_flight_ > 0 || summed_ < blocks(group_.rank())) return;
  Operation& operation = *operation_;
  const bool read_memory = !is_small_;
  group_.recycle(*this);
  Engine& engine = group_.engine();
  engine.finish(operation, read_memory);
}

void Call::finish_small() {
  const int own = group_.rank();
  const std::size_t size = gpu::size_of(signature_.dtype);
  if (signature_.kind == OperationKind::kBroadcast && signature_.root != own) {
    const std::vector<std::byte>& data = peer(signature_.root).data;
    if (!data.empty()) std::memcpy(output(), data.data(), data.size());
  }
  if (signature_.kind == OperationKind::kAllGather && signature_.count > 0) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      const std::byte* const from = rank == own ? input() : peer(rank).data.data();
      std::byte* const to = output() + chunk(rank).first * size;
      if (from != to && chunk_bytes(rank) > 0) std::memmove(to, from, chunk_bytes(rank));
    }
  }
  if (!combines()) return;
  weigh();
  const auto [first, second] = signature_.kind == OperationKind::kAllReduce
                                   ? std::pair<std::uint64_t, std::uint64_t>(0, signature_.count)
                                   : chunk(own);
  for (int rank = 0; rank < group_.size(); ++rank) {
    const std::byte* data = rank == own ? input() : peer(rank).data.data();
    if (rank != own && peer(rank).header.is_absent) data = nullptr;
    inputs_[static_cast<std::size_t>(rank)].data = data == nullptr ? nullptr : data + first * size;
  }
  void* const sum = output();
  reduce_chunk(signature_.dtype, signature_.reduction, inputs_, {&sum, 1}, second - first);
}

}  // namespace leat::comm::mpi
