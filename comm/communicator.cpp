#include "leat/comm/communicator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "leat/comm/transports/local/local.h"
#include "leat/comm/transports/mpi_hook.h"
#include "leat/comm/transports/nccl/nccl.h"
#include "leat/comm/transports/reduce.h"
#include "leat/csp/base/random.h"

namespace leat::comm {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("leat: comm: " + what);
}

std::string describe(std::uint64_t count, DType dtype) {
  return std::to_string(count) + ' ' + gpu::to_string(dtype);
}

void require_rank(const char* operation, int rank, int size) {
  if (rank >= 0 && rank < size) return;
  refuse(operation + std::to_string(rank) + "; there are ranks 0 to " + std::to_string(size - 1));
}

void require_reducible(const std::string& operation, DType dtype) {
  if (is_reducible(dtype)) return;
  refuse(operation + " of " + gpu::to_string(dtype) +
         ", which cannot be combined; convert it to another type");
}

ConstElements as_const(const Elements& data) {
  ConstElements same(data.data, data.count, data.dtype);
  same.on_device = data.on_device;
  return same;
}

// This rank's chunk of `whole` elements is what `chunk` must have.
void require_chunk(const std::string& operation, const Transport& of, std::uint64_t whole,
                   DType dtype, std::uint64_t chunk, DType chunk_dtype) {
  const auto [first, second] = chunk_of(whole, of.rank(), of.size());
  if (chunk == second - first && chunk_dtype == dtype) return;
  refuse(operation + ": the chunk of rank " + std::to_string(of.rank()) + " of " +
         describe(whole, dtype) + " is " + describe(second - first, dtype) + ", and " +
         describe(chunk, chunk_dtype) + " were given");
}

// N of "local:N".
int ranks_of(std::string_view name) {
  int ranks = 0;
  const std::size_t colon = name.find(':');
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + colon + 1, last, ranks);
  if (error == std::errc() && end == last && ranks >= 1 && ranks <= 4096) return ranks;
  throw Error("leat: comm::open(\"" + std::string(name) + "\"): write " +
              std::string(name.substr(0, colon)) + ":N, with 1 to 4096 ranks");
}

}  // namespace

struct Communicator::Shared {
  std::shared_ptr<gpu::Pool<CompletionState>> completions =
      std::make_shared<gpu::Pool<CompletionState>>();
  std::atomic<std::uint64_t> next_number{0};
  std::atomic<std::uint64_t> next_split{0};
};

Communicator::Communicator(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)), shared_(std::make_unique<Shared>()) {}

Communicator::Communicator(Communicator&& other) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    if (transport_ != nullptr) transport_->leave();
    transport_ = std::move(other.transport_);
    shared_ = std::move(other.shared_);
  }
  return *this;
}

Communicator::~Communicator() {
  if (transport_ != nullptr) transport_->leave();
}

int Communicator::rank() const noexcept { return transport_->rank(); }

int Communicator::size() const noexcept { return transport_->size(); }

const gpu::Device* Communicator::device() const noexcept { return transport_->device(); }

Completion Communicator::begin(Signature signature, int peer, const ConstElements& in,
                               const ConstElements& out) const {
  transport_->world().require_alive(transport_->world_rank());
  if (in.data != nullptr && out.data != nullptr && in.on_device != out.on_device) {
    refuse(std::string(to_string(signature.kind)) +
           " from one kind of memory to another: both are the host's, or both a device's");
  }
  signature.on_device = in.on_device || out.on_device;
  if (signature.on_device && device() == nullptr) {
    refuse(std::string(to_string(signature.kind)) +
           " in device memory; these ranks exchange what is in the host's memory (open \"nccl\")");
  }
  if (peer < 0) {
    signature.number = shared_->next_number.fetch_add(1, std::memory_order_relaxed);
  }
  CompletionState::Ref state = shared_->completions->take();
  CompletionState::begin(
      state, transport_,
      {.signature = signature, .peer = peer, .in = in.data, .out = const_cast<void*>(out.data)});
  return Completion(std::move(state));
}

Completion Communicator::send(const ConstElements& data, int to, std::uint64_t key) const {
  require_rank("send to rank ", to, size());
  return begin(
      {.kind = OperationKind::kSend, .dtype = data.dtype, .count = data.count, .number = key}, to,
      data, {});
}

Completion Communicator::recv(const Elements& data, int from, std::uint64_t key) const {
  require_rank("recv from rank ", from, size());
  return begin(
      {.kind = OperationKind::kRecv, .dtype = data.dtype, .count = data.count, .number = key}, from,
      {}, as_const(data));
}

Completion Communicator::all_reduce(const Elements& data, Reduction reduction) const {
  return all_reduce(as_const(data), data, reduction);
}

Completion Communicator::all_reduce(const ConstElements& in, const Elements& out,
                                    Reduction reduction) const {
  require_reducible("all_reduce", in.dtype);
  if (in.count != out.count || in.dtype != out.dtype) {
    refuse("all_reduce from " + describe(in.count, in.dtype) + " to " +
           describe(out.count, out.dtype) + "; the two are of one count and type");
  }
  return begin({.kind = OperationKind::kAllReduce,
                .reduction = reduction,
                .dtype = in.dtype,
                .count = in.count},
               -1, in, as_const(out));
}

Completion Communicator::reduce_scatter(const ConstElements& in, const Elements& out,
                                        Reduction reduction) const {
  require_reducible("reduce_scatter", in.dtype);
  require_chunk("reduce_scatter", *transport_, in.count, in.dtype, out.count, out.dtype);
  return begin({.kind = OperationKind::kReduceScatter,
                .reduction = reduction,
                .dtype = in.dtype,
                .count = in.count},
               -1, in, as_const(out));
}

Completion Communicator::all_gather(const ConstElements& in, const Elements& out) const {
  require_chunk("all_gather", *transport_, out.count, out.dtype, in.count, in.dtype);
  return begin({.kind = OperationKind::kAllGather, .dtype = out.dtype, .count = out.count}, -1, in,
               as_const(out));
}

Completion Communicator::broadcast(const Elements& data, int root) const {
  require_rank("broadcast from rank ", root, size());
  return begin(
      {.kind = OperationKind::kBroadcast, .dtype = data.dtype, .root = root, .count = data.count},
      -1, {}, as_const(data));
}

Completion Communicator::barrier() const {
  return begin({.kind = OperationKind::kBarrier}, -1, {}, {});
}

std::optional<Communicator> Communicator::split(int color, int key) const {
  const std::array<std::int64_t, 2> mine = {color, key};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size()));
  // Every rank counts this call alike, so the number names the communicators that come of it.
  const std::uint64_t number = shared_->next_split.fetch_add(1, std::memory_order_relaxed);
  all_gather(mine, all).await();
  if (color < 0) return std::nullopt;
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[2 * static_cast<std::size_t>(rank)] == color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {},
                           [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; });
  const std::uint64_t context = mix(mix(transport_->context() + 0x9E3779B97F4A7C15U) ^
                                    mix(number + 1) ^ static_cast<std::uint64_t>(color));
  return Communicator(transport_->subset(context, members));
}

Communicator Communicator::duplicate() const { return *split(0, rank()); }

void Communicator::abort(const std::string& reason) const noexcept {
  const int rank = transport_->world_rank();
  transport_->world().fail({.peer = rank,
                            .operation = "abort",
                            .what = "rank " + std::to_string(rank) + " aborted: " + reason});
}

std::vector<Communicator> open(std::string_view name, const OpenOptions& options) {
  std::vector<std::shared_ptr<Transport>> ends;
  if (name == "mpi") {
    ends.push_back(open_mpi(options));
  } else if (name.starts_with("local:")) {
    ends = open_local(ranks_of(name), options);
  } else if (name == "nccl") {
    ends = nccl::open_in_process(options, [&] { return open_mpi(options); });
  } else if (name.starts_with("nccl:")) {
    const int ranks = ranks_of(name);
    ends = nccl::open_here(ranks, options, [&] { return open_local(ranks, options); });
  } else {
    throw Error("leat: comm::open(\"" + std::string(name) +
                "\"): there is no such transport; there are local:N, mpi, nccl:N and nccl");
  }
  return {std::make_move_iterator(ends.begin()), std::make_move_iterator(ends.end())};
}

}  // namespace leat::comm
