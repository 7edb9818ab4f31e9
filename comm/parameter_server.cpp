#include "leat/comm/parameter_server.h"

#include <string>
#include <utility>

#include "leat/comm/server/endpoint.h"
#include "leat/comm/server/trainer.h"

namespace leat::comm {

ParameterServer::ParameterServer(const Communicator& communicator,
                                 std::vector<Parameter> parameters, ServerOptions options)
    : endpoint_(
          std::make_unique<Endpoint>(communicator, std::move(parameters), std::move(options))) {}

ParameterServer::~ParameterServer() = default;

void ParameterServer::begin_step(std::uint64_t samples) {
  endpoint_->trainer("begin_step").begin_step(samples);
}

Completion ParameterServer::send_vars(std::span<const std::size_t> indices,
                                      const gpu::StreamRef& stream) {
  return endpoint_->trainer("send_vars").send_vars(indices, &stream);
}

Completion ParameterServer::send_vars(std::size_t index, const gpu::StreamRef& stream) {
  return endpoint_->trainer("send_vars").send_vars({&index, 1}, &stream);
}

Completion ParameterServer::send_vars(std::size_t index) {
  return endpoint_->trainer("send_vars").send_vars({&index, 1}, nullptr);
}

Completion ParameterServer::send_barrier() {
  return endpoint_->trainer("send_barrier").send_barrier();
}

Completion ParameterServer::fetch_vars(std::span<const std::size_t> indices,
                                       const gpu::StreamRef& stream) {
  return endpoint_->trainer("fetch_vars").fetch_vars(indices, &stream);
}

Completion ParameterServer::fetch_vars(std::size_t index, const gpu::StreamRef& stream) {
  return endpoint_->trainer("fetch_vars").fetch_vars({&index, 1}, &stream);
}

Completion ParameterServer::fetch_vars(std::size_t index) {
  return endpoint_->trainer("fetch_vars").fetch_vars({&index, 1}, nullptr);
}

Completion ParameterServer::fetch_barrier() {
  return endpoint_->trainer("fetch_barrier").fetch_barrier();
}

void ParameterServer::serve() { endpoint_->serve(); }

ServerStats ParameterServer::stats() const { return endpoint_->stats(); }

std::size_t ParameterServer::size() const noexcept { return endpoint_->size(); }

std::string ServerStats::report() const {
  std::string text =
      std::to_string(pieces_sent) + " pieces sent, " + std::to_string(pieces_fetched) + " fetched";
  if (bytes_owned == 0) return text;
  text += "; " + std::to_string(updates) + " updates of " + std::to_string(bytes_owned) +
          " bytes of weights";
  std::uint64_t all = 0;
  std::uint64_t fresh = 0;
  for (std::size_t i = 0; i < staleness.size(); ++i) {
    all += staleness[i];
    if (i == 0) fresh = staleness[i];
  }
  if (all > 0) text += ", " + std::to_string(100 * fresh / all) + " % of gradients not stale";
  return text;
}

}  // namespace leat::comm
