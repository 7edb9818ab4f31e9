#include "leat/comm/server/server.h"

#include <algorithm>
#include <string>
#include <utility>

namespace leat::comm {
namespace {

constexpr std::size_t kMostStaleness = 32;  // more is counted together

}  // namespace

Server::Server(Endpoint& endpoint)
    : endpoint_(endpoint),
      world_(endpoint.world()),
      plan_(endpoint.plan()),
      options_(endpoint.options()),
      owned_of_(plan_.pieces.size()),
      heard_(world_.time()) {
  const bool moves_data = world_.options().link.moves_data;
  stats_.staleness.resize(options_.synchronous ? 1 : kMostStaleness);
  for (std::uint32_t i = 0; i < plan_.pieces.size(); ++i) {
    if (plan_.pieces[i].owner != endpoint.rank()) continue;
    owned_of_[i] = static_cast<std::uint32_t>(owned_.size());
    const std::size_t count = moves_data ? plan_.pieces[i].bytes / sizeof(float) : 0;
    owned_.push_back({.piece = i, .weights = OwnedWeights(options_.optimizer, count)});
    stats_.bytes_owned += plan_.pieces[i].bytes;
    for (std::size_t c = 0; c < plan_.workers.size(); ++c) {
      shares_.push_back({.gradient = std::vector<float>(count)});
    }
  }
  for (const int worker : plan_.workers) {
    clients_.push_back(
        {.rank = worker, .pulls = CreditQueue(options_.credit_bytes, owned_.size())});
  }
  inputs_.resize(clients_.size());
  left_of_round_ = owned_.size();
}

ServerStats Server::stats() const {
  const SpinLockGuard guard(stats_lock_);
  return stats_;
}

std::size_t Server::client_of(int rank) const noexcept {
  return static_cast<std::size_t>(std::ranges::find(clients_, rank, &Client::rank) -
                                  clients_.begin());
}

void Server::handle(const TrainerCall& call) {
  if (call.kind != TrainerCall::Kind::kServe) return;
  is_serving_ = true;
  check_end();
}

void Server::handle(const Notice& notice) {
  if (notice.kind == World::kFailed) {
    const std::size_t client = client_of(endpoint_.rank_of(notice.from));
    if (client < clients_.size()) left(client, static_cast<int>(notice.value) - 1);
    return;
  }
  heard_ = world_.time();
  switch (static_cast<ServerNotice>(notice.kind)) {
    case kPush: receive(notice); break;
    case kFetch: wanted(notice); break;
    case kBarrier: barrier(notice); break;
    case kAwait:
      clients_[client_of(notice.from)].awaited = notice.step;
      tell_of_round();
      break;
    case kLeave: left(client_of(notice.from), std::nullopt); break;
    default: break;  // not for this side
  }
}

void Server::finish(PieceTransfer& transfer) {
  if (transfer.is_push) return received(transfer);
  --static_cast<OwnedWeights::Version*>(transfer.buffer)->readers;
  clients_[client_of(transfer.peer)].pulls.finished(plan_.pieces[transfer.piece].bytes);
  endpoint_.recycle(transfer);
}

// Sends weights.
void Server::act() {
  for (std::size_t c = 0; c < clients_.size(); ++c) {
    while (const std::optional<CreditQueue::Entry> next = clients_[c].pulls.next()) {
      OwnedPiece& one = owned_[owned_of_[next->piece]];
      share(owned_of_[next->piece], c).fetched_version = one.version;
      PieceTransfer& transfer =
          endpoint_.take(*this, /*is_push=*/false, next->piece, clients_[c].rank);
      OwnedWeights::Version& latest = one.weights.latest();
      transfer.buffer = &latest;
      ++latest.readers;
      endpoint_.tell(transfer.peer, {.kind = kPull, .piece = next->piece});
      endpoint_.begin(transfer, latest.values.data());
    }
  }
}

// ---- gradients

// A worker sends a piece: of its gradient, or (step 0) of the first weights.
void Server::receive(const Notice& notice) {
  const std::uint32_t owned = owned_of_[notice.piece];
  Share& from = share(owned, client_of(notice.from));
  if (from.is_busy) {
    early_.push_back(notice);
    return;
  }
  from.is_busy = true;
  from.step = notice.step;
  from.samples = notice.value;
  std::vector<float>& memory =
      notice.step == 0 ? owned_[owned].weights.latest().values : from.gradient;
  endpoint_.begin(endpoint_.take(*this, /*is_push=*/true, notice.piece, notice.from),
                  memory.data());
}

void Server::received(PieceTransfer& transfer) {
  const std::uint32_t owned = owned_of_[transfer.piece];
  const std::size_t client = client_of(transfer.peer);
  endpoint_.recycle(transfer);
  if (world_.is_dead()) return;
  OwnedPiece& one = owned_[owned];
  Share& from = share(owned, client);
  if (from.step == 0) {
    one.has_weights = true;
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
void Server::release(std::uint32_t owned, Share& from) {
  from.sent = from.step;
  from.is_busy = from.is_here = false;
  const auto early = std::ranges::find_if(early_, [&](const Notice& one) {
    return owned_of_[one.piece] == owned && &share(owned, client_of(one.from)) == &from;
  });
  if (early == early_.end()) return;
  const Notice notice = *early;
  early_.erase(early);
  receive(notice);
}

// Whether the worker's gradient of the step is here, or does not come.
bool Server::has_come(std::uint32_t owned, std::size_t client, std::uint64_t step) {
  const Share& from = share(owned, client);
  return from.is_busy && from.step == step ? from.is_here : clients_[client].barrier >= step;
}

// Synchronous: updates the piece, if the gradients of all workers are here, or do not come.
void Server::try_round(std::uint32_t owned) {
  OwnedPiece& one = owned_[owned];
  const std::uint64_t step = one.version + 1;
  // A worker that has none for this step may have sent that of the next.
  const auto is_in = [&](const Share& from) { return from.is_here && from.step == step; };
  std::uint64_t total = 0;
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    if (!has_come(owned, w, step)) return;
    total += is_in(share(owned, w)) ? share(owned, w).samples : clients_[w].samples;
  }
  Share* first = nullptr;  // its memory becomes that of the sum
  for (std::size_t w = 0; w < clients_.size(); ++w) {
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
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    if (is_in(share(owned, w))) release(owned, share(owned, w));
  }
  offer_all(owned);
  end_piece_of_round(step);
}

void Server::end_piece_of_round(std::uint64_t step) {
  if (step == round_) {
    --left_of_round_;
  } else {
    ++ahead_;
  }
  while (left_of_round_ == 0 && !owned_.empty()) {
    for (const Client& client : clients_) {
      if (!client.has_left) endpoint_.tell(client.rank, {.kind = kDone, .step = round_});
    }
    ++round_;
    left_of_round_ = owned_.size() - std::exchange(ahead_, 0);
    tell_of_round();
  }
}

void Server::apply(OwnedPiece& one, const float* gradient) {
  one.weights.update(gradient);
  const SpinLockGuard guard(stats_lock_);
  ++stats_.updates;
}

// A worker has ended a step.
void Server::barrier(const Notice& notice) {
  Client& client = clients_[client_of(notice.from)];
  client.barrier = notice.step;
  client.samples = notice.value;
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
    options_.synchronous ? try_round(owned) : offer_all(owned);
  }
}

// ---- weights

// A worker fetches the pieces of a parameter.
void Server::wanted(const Notice& notice) {
  const std::size_t client = client_of(notice.from);
  for (std::uint32_t i = plan_.first_piece[notice.tensor]; i < plan_.first_piece[notice.tensor + 1];
       ++i) {
    if (plan_.pieces[i].owner != endpoint_.rank()) continue;
    Share& one = share(owned_of_[i], client);
    one.is_wanted = true;
    one.wanted_step = notice.step;
    offer(owned_of_[i], client);
  }
}

// Whether a fetch waits for a worker.
bool Server::is_missing(std::uint32_t owned, std::size_t client, const Share& fetch) {
  if (!owned_[owned].has_weights) return client == 0;  // which sends the first
  if (options_.synchronous) {
    const std::uint64_t version = owned_[owned].version;
    return version < fetch.wanted_step && !has_come(owned, client, version + 1);
  }
  const Share& other = share(owned, client);
  if (&other == &fetch) return fetch.sent < fetch.wanted_step;
  if (!options_.staleness.has_value()) return false;
  const auto bound = static_cast<std::uint64_t>(*options_.staleness);
  if (clients_[client].has_left) return false;
  // A gradient that is announced counts once it has come.
  const std::uint64_t sent =
      other.is_busy ? other.sent : std::max(other.sent, clients_[client].barrier);
  return sent + bound < fetch.wanted_step;
}

// Queues the piece for a worker that has asked for it, if it can be sent.
void Server::offer(std::uint32_t owned, std::size_t client) {
  Share& one = share(owned, client);
  if (!one.is_wanted) return;
  bool waits = false;
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    if (!is_missing(owned, w, one)) continue;
    waits = true;
    if (clients_[w].has_left) return tell_missing(owned, client, clients_[w]);
  }
  if (waits) return;
  one.is_wanted = false;
  clients_[client].pulls.queue(endpoint_.entry_of(owned_[owned].piece));
}

void Server::offer_all(std::uint32_t owned) {
  for (std::size_t w = 0; w < clients_.size(); ++w) offer(owned, w);
}

// ---- who has left

void Server::tell_missing(std::uint32_t owned, std::size_t client, const Client& missing) {
  share(owned, client).is_wanted = false;
  const int cause = missing.blames.value_or(wait_for(missing).rank);
  endpoint_.tell(clients_[client].rank, {.kind = kMissing,
                                         .tensor = plan_.pieces[owned_[owned].piece].tensor,
                                         .piece = missing.blames ? 1U : 0U,
                                         .value = static_cast<std::uint64_t>(1 + cause)});
}

// Tells the workers that wait for the end of a round, if a worker has left that is missing.
void Server::tell_of_round() {
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) {
    if (owned_[owned].version >= round_) continue;
    for (std::size_t w = 0; w < clients_.size(); ++w) {
      if (!clients_[w].has_left || has_come(owned, w, round_)) continue;
      for (std::size_t waits = 0; waits < clients_.size(); ++waits) {
        if (clients_[waits].awaited < round_ || clients_[waits].has_left) continue;
        clients_[waits].awaited = 0;
        tell_missing(owned, waits, clients_[w]);
      }
    }
  }
}

void Server::left(std::size_t client, std::optional<int> blames) {
  if (std::exchange(clients_[client].has_left, true)) return;
  clients_[client].blames = blames;
  if (options_.synchronous) tell_of_round();
  for (std::uint32_t owned = 0; owned < owned_.size(); ++owned) offer_all(owned);
  check_end();
}

void Server::check_end() {
  if (!std::ranges::all_of(clients_, &Client::has_left)) return;
  std::optional<Failure> failure = failure_of_clients();
  if (!failure) return served_bell_.ring();
  world_.fail(std::move(*failure), /*tell=*/false);
}

// If a worker has failed because a rank did not come.
std::optional<Failure> Server::failure_of_clients() const {
  const auto one = std::ranges::find_if(
      clients_, [](const std::optional<int>& cause) { return cause.has_value(); }, &Client::blames);
  if (one == clients_.end()) return std::nullopt;
  const std::string left = std::to_string(wait_for(*one).rank);
  const int cause = *one->blames;
  return Failure{
      .peer = cause,
      .operation = "serve",
      .what = "rank " + left + " has failed because " +
              (cause < 0 ? "ranks waited for each other"
                         : "it waited for rank " + std::to_string(cause) + ", which did not come")};
}

void Server::leave() {
  for (const Client& client : clients_) {
    const bool is_other = client.rank != endpoint_.rank();
    if (!client.has_left && is_other) endpoint_.tell(client.rank, {.kind = kGone});
  }
}

// ---- who is late

// While it serves: when nothing was heard of the workers for a deadline. In one process none is
// lost.
TimePoint Server::next_deadline() const {
  if (!is_serving_ || world_.is_in_one_process()) return TimePoint::max();
  return Deadline::after(heard_, world_.options().deadline).at();
}

// While one of the workers answers, it is served.
void Server::check_deadline(TimePoint now) {
  if (next_deadline() > now) return;
  heard_ = now;
  std::vector<Wait> all;
  for (const Client& client : clients_) {
    if (!client.has_left) all.push_back(wait_for(client));
  }
  if (all.empty()) return;
  Failure silent = failure_of_clients().value_or(
      Failure{.peer = all.front().rank,
              .operation = "serve",
              .what = "rank " + std::to_string(all.front().rank) +
                      " has not answered by the deadline: it is stopped or dead"});
  world_.accuse({.failure = std::move(silent),
                 .missing = std::move(all),
                 .tell = false,
                 .only_silent = true});
}

// For a worker that waits for this server: the workers that it waits for. In serve() the trainer
// waits for all.
void Server::add_waits(const Wait& asked, bool /*is_awaited*/, Answer& answer) {
  const bool is_trainer = asked.context != endpoint_.transport()->context();
  const std::size_t by = is_trainer ? clients_.size() : client_of(endpoint_.rank_of(asked.by));
  for (std::size_t c = 0; c < clients_.size(); ++c) {
    bool waits = is_trainer && is_serving_ && !clients_[c].has_left;
    for (std::uint32_t owned = 0; owned < owned_.size() && by < clients_.size(); ++owned) {
      const Share& one = share(owned, by);
      waits = waits || (one.is_wanted && is_missing(owned, c, one)) ||
              (clients_[by].awaited >= round_ && owned_[owned].version < round_ &&
               !has_come(owned, c, round_));
    }
    if (waits) answer.add({.waits = true, .whom = {wait_for(clients_[c])}});
  }
}

}  // namespace leat::comm
