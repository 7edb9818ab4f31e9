#include "leat/comm/exchange/calls.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace leat::comm {

StreamCalls::StreamCalls(World& world, int rank, Channel<TrainerCall> calls, std::size_t most,
                         Streams streams)
    : world_(world),
      rank_(rank),
      calls_(std::move(calls)),
      most_(most),
      whose_(streams),
      fibers_(world.scheduler()) {}

StreamCalls::~StreamCalls() {
  for (const OneStream& one : streams_) one.waiting.try_close();
}

bool StreamCalls::defer(const gpu::StreamRef& stream, const TrainerCall& call) {
  gpu::Event event(stream.device());
  event.record(stream);
  if (event.is_done()) return false;
  waiting_on(stream).send({std::move(event), call});
  return true;
}

const Channel<StreamCalls::Waiting>& StreamCalls::waiting_on(const gpu::StreamRef& stream) {
  const auto known =
      std::ranges::find_if(streams_, [&](const OneStream& one) { return one.stream == stream; });
  if (known != streams_.end()) return known->waiting;
  const Channel<Waiting> waiting(static_cast<std::int64_t>(most_), "comm events");
  streams_.push_back({stream, waiting});
  fibers_.go([this, waiting] { run(waiting); }, {.name = "comm events"});
  return streams_.back().waiting;
}

void StreamCalls::run(const Channel<Waiting>& waiting) {
  // A piece that is being copied comes back to the exchange, whatever happens.
  std::optional<Shield> shield;
  if (whose_ == Streams::kOfExchange) shield.emplace();
  for (Waiting& one : waiting) {
    try {
      one.event.await();
    } catch (const std::exception& error) {
      fail_by(world_, rank_, error);
    }
    calls_.send(one.call);
  }
}

void fail_by(World& world, int rank, const std::exception& error) noexcept {
  world.fail({.peer = rank,
              .operation = "GradientExchange",
              .what = "the exchange of rank " + std::to_string(rank) + " failed: " + error.what()});
}

}  // namespace leat::comm
