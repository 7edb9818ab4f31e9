#include "leat/comm/exchange/calls.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace leat::comm {

void StreamCalls::after(const gpu::StreamRef& stream, const TrainerCall& call) {
  gpu::Event event(stream.device());
  event.record(stream);
  if (event.is_done()) {
    calls_.send(call);
  } else {
    waiting_on(stream).send({std::move(event), call});
  }
}

const Channel<StreamCalls::Waiting>& StreamCalls::waiting_on(const gpu::StreamRef& stream) {
  const auto known =
      std::ranges::find_if(streams_, [&](const OneStream& one) { return one.stream == stream; });
  if (known != streams_.end()) return known->waiting;
  const Channel<Waiting> waiting(static_cast<std::int64_t>(most_), "comm events");
  streams_.push_back({stream, waiting});
  const auto run = [waiting, calls = calls_, &world = world_] {
    try {
      for (Waiting& one : waiting) {
        one.event.await();
        calls.send(one.call);
      }
    } catch (const std::exception& error) {
      world.fail({.operation = "await of a device's event", .what = error.what()});
    }
  };
  fibers_.go(run, {.name = "comm events"});
  return streams_.back().waiting;
}

}  // namespace leat::comm
