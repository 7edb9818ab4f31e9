// What a server's fiber does: gradients from the workers, updates, weights to them.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "leat/comm/server/party.h"
#include "leat/comm/server/update.h"
#include "leat/comm/transports/rank_calls.h"
#include "leat/comm/transports/reduce.h"

namespace leat::comm {
namespace {

constexpr std::size_t kMostStaleness = 32;  // more is counted together

}  // namespace

void Party::make_owned() {
  const bool moves_data = world_.options().link.moves_data;
  owned_of_.resize(plan_.pieces.size());
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < plan_.pieces.size(); ++i) {
    if (plan_.pieces[i].owner != rank_) continue;
    owned_of_[i] = static_cast<std::uint32_t>(owned_.size());
    const std::size_t count = moves_data ? plan_.pieces[i].bytes / sizeof(float) : 0;
    ServerPiece one{.piece = i, .state = std::vector<float>(count * states_of(options_.optimizer))};
    one.buffers.push_back(std::make_unique<Buffer>(Buffer{.values = std::vector<float>(count)}));
    owned_.push_back(std::move(one));
    bytes += plan_.pieces[i].bytes;
    for (std::size_t w = 0; w < plan_.workers.size(); ++w) {
      shares_.push_back({.gradient = std::vector<float>(count)});
    }
  }
  for (const int worker : plan_.workers) {
    workers_.push_back(
        {.rank = worker, .line = Line(plan_, options_.policy, options_.credit_bytes)});
  }
  heard_ = world_.time();
  inputs_.resize(workers_.size());
  left_of_round_ = owned_.size();
  std::vector<std::uint64_t> staleness(options_.synchronous ? 1 : kMostStaleness);
  const SpinLockGuard guard(stats_lock_);
  stats_.bytes_owned = bytes;
  stats_.staleness.swap(staleness);
}

std::size_t Party::worker_of(int rank) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(workers_, rank, &Worker::rank) -
                                  workers_.begin());
}

// ---- gradients

// A worker sends a piece: of its gradient, or (step 0) of the first weights.
void Party::receive(const Notice& notice) {
  const std::uint32_t owned = owned_of_[notice.piece];
  Share& from = share(owned, worker_of(notice.from));
  if (from.is_busy) {
    early_.push_back(notice);
    return;
  }
  from.is_busy = true;
  from.step = notice.step;
  from.samples = notice.value;
  std::vector<float>& memory =
      notice.step == 0 ? owned_[owned].buffers.front()->values : from.gradient;
  begin(take_transfer(Transfer::Kind::kGradient, notice.piece, notice.from), memory.data());
}

void Party::received(Transfer& transfer) {
  const std::uint32_t owned = owned_of_[transfer.piece];
  const std::size_t worker = worker_of(transfer.peer);
  recycle(transfer);
  if (world_.is_dead()) return;
  ServerPiece& one = owned_[owned];
  Share& from = share(owned, worker);
  if (from.step == 0) {
    one.weights = one.buffers.front().get();
    from.is_busy = false;
    offer_all(owned);
    return;
  }
  if (options_.synchronous) {
    from.is_here = true;
    try_round(owned);
    return;
  }
  const std::uint64_t staleness = one.version - from.fetched_version;
  {
    const SpinLockGuard guard(stats_lock_);
    ++stats_.staleness[std::min<std::size_t>(staleness, stats_.staleness.size() - 1)];
  }
  apply(one, from.gradient.data());
  ++one.version;
  release(owned, from);
  offer_all(owned);
}

// The gradient is in the weights. A push that came meanwhile can be received.
void Party::release(std::uint32_t owned, Share& from) {
  from.sent = from.step;
  from.is_busy = from.is_here = false;
  const auto early = std::ranges::find_if(early_, [&](const Notice& one) {
    return owned_of_[one.piece] == owned && &share(owned, worker_of(one.from)) == &from;
  });
  if (early == early_.end()) return;
  const Notice notice = *early;
  early_.erase(early);
  receive(notice);
}

// Whether the worker's gradient of the step is here, or does not come.
bool Party::has_come(std::uint32_t owned, std::size_t worker, std::uint64_t step) {
  const Share& from = share(owned, worker);
  return from.is_busy && from.step == step ? from.is_here : workers_[worker].barrier >= step;
}

// Synchronous: updates the piece, if the gradients of all workers are here, or do not come.
void Party::try_round(std::uint32_t owned) {
  ServerPiece& one = owned_[owned];
  const std::uint64_t step = one.version + 1;
  // A worker that has none for this step may have sent that of the next.
  const auto is_in = [&](const Share& from) { return from.is_here && from.step == step; };
  std::uint64_t total = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!has_come(owned, w, step)) return;
    total += is_in(share(owned, w)) ? share(owned, w).samples : workers_[w].samples;
  }
  Share* first = nullptr;  // its memory becomes that of the sum
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Share& from = share(owned, w);
    inputs_[w] = {};
    if (!is_in(from)) continue;
    inputs_[w] = {.data = from.gradient.data(), .weight = weight_of(from.samples, total)};
    if (first == nullptr) first = &from;
  }
  if (first != nullptr) {
    std::vector<float>& sum = first->gradient;
    void* const out = sum.data();
    if (!sum.empty()) {
      reduce(DType::kFloat32, Reduction::kSum, inputs_, {&out, 1}, 0, sum.size());
    }
    apply(one, sum.data());
    const SpinLockGuard guard(stats_lock_);
    ++stats_.staleness.front();
  }
  one.version = step;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (is_in(share(owned, w))) release(owned, share(owned, w));
  }
  offer_all(owned);
  end_piece_of_round(step);
}

void Party::end_piece_of_round(std::uint64_t step) {
  if (step == round_) {
    --left_of_round_;
  } else {
    ++ahead_;
  }
  while (left_of_round_ == 0 && !owned_.empty()) {
    for (const Worker& worker : workers_) {
      if (!worker.has_left) tell(worker.rank, {.kind = kDone, .step = round_});
    }
    ++round_;
    left_of_round_ = owned_.size() - std::exchange(ahead_, 0);
    tell_of_round();
  }
}

// Updates the weights with a gradient. Others may be sending them: then to another buffer.
void Party::apply(ServerPiece& one, const float* gradient) {
  Buffer* to = one.weights;
  if (to->readers > 0) {
    const auto unread =
        std::ranges::find_if(one.buffers, [](const auto& buffer) { return buffer->readers == 0; });
    if (unread == one.buffers.end()) {  // at most one for each worker, and one more
      one.buffers.push_back(
          std::make_unique<Buffer>(Buffer{.values = std::vector<float>(to->values.size())}));
      to = one.buffers.back().get();
    } else {
      to = unread->get();
    }
  }
  update(options_.optimizer, one.weights->values.data(), to->values.data(), gradient,
         one.state.data(), to->values.size(), ++one.updates);
  one.weights = to;
  const SpinLockGuard guard(stats_lock_);
  ++stats_.updates;
}

// A worker has ended a step.
void Party::barrier(const Notice& notice) {
  Worker& worker = workers_[worker_of(notice.from)];
  worker.barrier = notice.step;
  worker.samples = notice.value;
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
    options_.synchronous ? try_round(owned) : offer_all(owned);
  }
}

// ---- weights

// A worker fetches the pieces of a parameter.
void Party::wanted(const Notice& notice) {
  const std::size_t worker = worker_of(notice.from);
  for (std::uint32_t i = plan_.first_piece[notice.tensor]; i < plan_.first_piece[notice.tensor + 1];
       ++i) {
    if (plan_.pieces[i].owner != rank_) continue;
    Share& one = share(owned_of_[i], worker);
    one.is_wanted = true;
    one.wanted_step = notice.step;
    offer(owned_of_[i], worker);
  }
}

// Whether a fetch waits for a worker.
bool Party::is_missing(std::uint32_t owned, std::size_t worker, const Share& fetch) {
  if (owned_[owned].weights == nullptr) return worker == 0;  // which sends the first
  if (options_.synchronous) {
    const std::uint64_t version = owned_[owned].version;
    return version < fetch.wanted_step && !has_come(owned, worker, version + 1);
  }
  const Share& other = share(owned, worker);
  if (&other == &fetch) return fetch.sent < fetch.wanted_step;
  if (!options_.staleness.has_value()) return false;
  const auto bound = static_cast<std::uint64_t>(*options_.staleness);
  if (workers_[worker].has_left) return false;
  // A gradient that is announced counts once it has come.
  const std::uint64_t sent =
      other.is_busy ? other.sent : std::max(other.sent, workers_[worker].barrier);
  return sent + bound < fetch.wanted_step;
}

// Queues the piece for a worker that has asked for it, if it can be sent.
void Party::offer(std::uint32_t owned, std::size_t worker) {
  Share& one = share(owned, worker);
  if (!one.is_wanted) return;
  bool waits = false;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (!is_missing(owned, w, one)) continue;
    waits = true;
    if (workers_[w].has_left) return tell_missing(owned, worker, w);
  }
  if (waits) return;
  one.is_wanted = false;
  workers_[worker].line.queue(owned_[owned].piece, world_.time());
}

void Party::offer_all(std::uint32_t owned) {
  for (std::size_t w = 0; w < workers_.size(); ++w) offer(owned, w);
}

void Party::send_weights() {
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    while (const std::optional<std::uint32_t> piece = workers_[w].line.next()) {
      ServerPiece& one = owned_[owned_of_[*piece]];
      share(owned_of_[*piece], w).fetched_version = one.version;
      Transfer& transfer = take_transfer(Transfer::Kind::kWeights, *piece, workers_[w].rank);
      transfer.buffer = one.weights;
      ++one.weights->readers;
      tell(transfer.peer, {.kind = kPull, .piece = *piece});
      begin(transfer, one.weights->values.data());
    }
  }
}

void Party::weights_sent(Transfer& transfer) {
  --transfer.buffer->readers;
  workers_[worker_of(transfer.peer)].line.finished(transfer.piece);
  recycle(transfer);
}

}  // namespace leat::comm
