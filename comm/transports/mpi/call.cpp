#include "leat/comm/transports/mpi/call.h"

#include <cstring>
#include <string>

#include "leat/comm/transports/mpi/engine.h"
#include "leat/comm/transports/mpi/group.h"
#include "leat/comm/transports/rank_calls.h"

namespace leat::comm::mpi {
namespace {

// Half a part, so that receiving and summing overlap, but not so little that the messages count,
// and not so much that what is received has left a core's cache when it is summed.
constexpr std::uint64_t kLeastBlockBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kWindow = 2;

}  // namespace

Call::Call(Group& group)
    : group_(group),
      peers_(static_cast<std::size_t>(group.size())),
      inputs_(static_cast<std::size_t>(group.size())) {}

void Call::reset(std::uint64_t number) noexcept {
  for (Peer& one : peers_) {
    one.is_here = false;
    one.streams = {};
  }
  number_ = number;
  operation_ = nullptr;
  samples_ = 0;
}

// ---- where things are

Call::Bytes Call::block(int rank, std::uint64_t at) const noexcept {
  const Bytes& of = peer(rank).part;
  const std::uint64_t first = of.first + at * block_;
  return {first, std::min(first + block_, of.second)};
}

std::byte* Call::scratch(int rank, std::uint64_t block) noexcept {
  const std::uint64_t place = static_cast<std::uint64_t>(rank) * window_ + block % window_;
  return scratch_.data() + place * block_;
}

// How the vector is cut: the same on all ranks.
void Call::lay_out() {
  const Signature& called = operation_->signature;
  const std::uint64_t size = gpu::size_of(called.dtype);
  const std::uint64_t count = count_of_data(called);
  is_small_ = count <= kInlineBytes / size;
  sums_ = called.kind == OperationKind::kAllReduce || called.kind == OperationKind::kReduceScatter;
  const bool is_whole = called.kind == OperationKind::kAllReduce && is_small_;
  gathers_ = called.kind != OperationKind::kReduceScatter && !is_whole;
  block_ = std::max<std::uint64_t>(1, count * size);
  window_ = 1;
  if (sums_ && !is_small_) {
    // One message carries a block, if an element is not larger than that.
    const std::uint64_t message = group_.wire().message_bytes();
    const std::uint64_t chunk = count / static_cast<std::uint64_t>(group_.size()) * size;
    const std::uint64_t bytes = std::clamp(chunk / 2, kLeastBlockBytes, kMostBlockBytes);
    block_ = std::max<std::uint64_t>(1, std::min(bytes, message) / size) * size;
    if (block_ <= message) window_ = kWindow;
    const std::uint64_t wanted = static_cast<std::uint64_t>(group_.size()) * window_ * block_;
    if (scratch_.size() < wanted) scratch_.resize(wanted);
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    auto [first, second] = chunk_of(count, rank, group_.size());
    if (is_whole || called.root == rank) {
      first = 0;
      second = count;
    } else if (called.kind == OperationKind::kBroadcast) {
      first = second = 0;
    }
    Peer& one = peer(rank);
    one.part = {first * size, second * size};
    one.blocks = (one.part.size() + block_ - 1) / block_;
  }
  summed_ = sums_ ? 0 : peer(group_.rank()).blocks;
}

// ---- agreement

void Call::begin(Operation& operation) {
  operation_ = &operation;
  lay_out();
  announce();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    if (peer(rank).is_here) {
      agree(rank);
    } else if (group_.has_left(rank)) {
      fail(rank);
    }
  }
  advance();
}

void Call::received(int from, const Header& header, const std::byte* data) {
  Peer& one = peer(from);
  one.is_here = true;
  one.header = header;
  one.data.assign(data, data + header.bytes);
  samples_ += header.value;
  if (operation_ == nullptr) return;
  agree(from);
  advance();
}

void Call::check_left(int from) {
  if (operation_ != nullptr && !peer(from).is_here) fail(from);
}

// Tells all ranks what this one calls, with its data if that is little.
void Call::announce() {
  const Signature& called = operation_->signature;
  Peer& own = peer(group_.rank());
  own.is_here = true;
  own.header = {.kind = MessageKind::kCall,
                .is_absent = !sums_ || operation_->in == nullptr,
                .tag = group_.wire().next_tags(),
                .context = group_.context(),
                .signature = called,
                .value = operation_->samples};
  samples_ += own.header.value;
  const void* data = sums_ ? operation_->in : output();
  std::uint64_t bytes =
      sums_ ? count_of_data(called) * gpu::size_of(called.dtype) : own.part.size();
  if (called.kind == OperationKind::kAllGather && bytes > 0) {
    std::byte* const mine = output() + own.part.first;
    if (mine != input()) std::memmove(mine, input(), bytes);
    data = mine;
  }
  if (is_small_ && data != nullptr) own.header.bytes = static_cast<std::uint32_t>(bytes);
  group_.wire().send_to_others(group_.members(), own.header, data);
}

// Both ranks have begun: are they doing the same? Then data may go.
void Call::agree(int rank) {
  Peer& one = peer(rank);
  if (one.header.signature != operation_->signature) fail(rank);
  if (!is_small_) return go_on(rank);
  one.streams[kTake] = {.started = 1, .done = 1};
  if (gathers_ && !one.data.empty()) {
    std::memcpy(output() + one.part.first, one.data.data(), one.data.size());
  }
}

// ---- streams

void Call::block_ended(const Transfer& block) {
  auto& self = *static_cast<Call*>(block.owner);
  self.peer(block.rank).streams[block.stage].ended(block.item);
  self.go_on(block.rank);
  self.advance();
}

// How many blocks of the stream may have been started by now.
std::uint64_t Call::startable(int rank, Stage stage) const noexcept {
  const Peer& one = peer(rank);
  const Peer& own = peer(group_.rank());
  const std::uint64_t window = one.streams[stage].done + window_;
  const bool gives = !own.header.is_absent;
  switch (stage) {
    case kGive: return gives ? std::min(one.blocks, window) : 0;
    case kResult:
      if (!gathers_) return 0;
      return std::min({one.blocks, window, gives ? one.streams[kGive].done : window});
    case kTake: return one.header.is_absent ? 0 : std::min(own.blocks, summed_ + window_);
    case kBack: return gathers_ ? std::min(summed_, window) : 0;
    default: return 0;
  }
}

// Starts what may be started to and from a rank with which this one agrees.
void Call::go_on(int rank) {
  if (is_small_ || rank == group_.rank()) return;
  for (const Stage stage : {kGive, kResult, kTake, kBack}) {
    const bool sends = stage == kGive || stage == kBack;
    const bool is_own = stage == kTake || stage == kBack;
    std::uint64_t& at = peer(rank).streams[stage].started;
    for (const std::uint64_t until = startable(rank, stage); at < until; ++at) {
      const Bytes bytes = block(is_own ? group_.rank() : rank, at);
      std::byte* memory = output() + bytes.first;
      if (stage == kGive) memory = const_cast<std::byte*>(input()) + bytes.first;
      if (stage == kTake) memory = scratch(rank, at);
      const int tag = peer(sends ? group_.rank() : rank).header.tag;
      group_.wire().start({.peer = group_.world_rank(rank),
                           .tag = tag + (stage == kBack || stage == kResult ? 1 : 0),
                           .sends = sends,
                           .memory = memory,
                           .bytes = bytes.size(),
                           .done = &Call::block_ended,
                           .owner = this,
                           .rank = rank,
                           .stage = stage,
                           .item = at});
    }
  }
}

// Sums the blocks of this rank's part for which all inputs are here.
void Call::sum_blocks() {
  const Signature& called = operation_->signature;
  const Peer& own = peer(group_.rank());
  for (; summed_ < own.blocks; ++summed_) {
    const Bytes bytes = block(group_.rank(), summed_);
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Peer& one = peer(rank);
      Input& input = inputs_[static_cast<std::size_t>(rank)];
      input = {.weight = called.is_weighted ? weight_of(one.header.value, samples_) : 1.0F};
      if (one.header.is_absent) continue;
      if (&one == &own) {
        input.data = this->input() + bytes.first;
      } else if (one.streams[kTake].done == summed_) {
        return;
      } else {
        input.data = is_small_ ? one.data.data() + bytes.first : scratch(rank, summed_);
      }
    }
    const bool scatters = called.kind == OperationKind::kReduceScatter;
    void* const sum = output() + (bytes.first - (scatters ? own.part.first : 0));
    reduce(called.dtype, called.reduction, inputs_, {&sum, 1}, 0,
           bytes.size() / gpu::size_of(called.dtype));
  }
}

// ---- the end

void Call::advance() {
  const auto is_here = [](const Peer& one) { return one.is_here; };
  if (!std::all_of(peers_.begin(), peers_.end(), is_here)) return;
  const std::uint64_t before = summed_;
  sum_blocks();
  for (int rank = 0; summed_ != before && rank < group_.size(); ++rank) go_on(rank);
  if (summed_ < peer(group_.rank()).blocks) return;
  if (std::any_of(peers_.begin(), peers_.end(), [](const Peer& one) { return one.is_busy(); })) {
    return;
  }
  Operation& operation = *operation_;
  if (operation.signature.on_device) operation.total_samples = samples_;
  const bool read_memory = !is_small_;
  Engine& engine = group_.engine();
  group_.recycle(*this);
  engine.finish(operation, read_memory);
}

std::vector<int> Call::missing() const {
  std::vector<int> ranks;
  std::vector<int> busy;
  std::vector<int> late;  // ranks whose block is the next that this one has to sum
  for (int rank = 0; rank < group_.size(); ++rank) {
    const Peer& one = peer(rank);
    const int of_world = group_.world_rank(rank);
    if (!one.is_here) ranks.push_back(of_world);
    if (!one.is_busy()) continue;
    busy.push_back(of_world);
    const Stream& input = one.streams[kTake];
    if (input.started > summed_ && input.done <= summed_) late.push_back(of_world);
  }
  if (!ranks.empty() || busy.empty()) return ranks;
  return late.empty() ? busy : late;
}

void Call::fail(int blamed) {
  std::vector<RankCall> calls;
  for (int rank = 0; rank < group_.size(); ++rank) {
    std::string text = group_.has_left(rank) ? "has left" : "nothing yet";
    if (peer(rank).is_here) text = to_string(peer(rank).header.signature);
    if (rank == group_.rank()) text = describe(*operation_);
    calls.push_back({group_.world_rank(rank), std::move(text)});
  }
  group_.engine().fail(mismatch(*operation_, group_.world_rank(blamed), calls));
}

}  // namespace leat::comm::mpi
