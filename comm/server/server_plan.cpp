#include "leat/comm/server/server_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace leat::comm {
namespace {

[[noreturn]] void refuse_server(const std::string& what) {
  throw std::invalid_argument("leat: ParameterServer: " + what);
}

void require_ranks(const std::vector<int>& ranks, int size, const std::string& what) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size) {
      refuse_server(what + " has rank " + std::to_string(rank) + "; there are ranks 0 to " +
                    std::to_string(size - 1));
    }
    if (std::ranges::count(ranks, rank) > 1) {
      refuse_server(what + " has rank " + std::to_string(rank) + " twice");
    }
  }
}

void require_at_least(float value, float least, const char* what) {
  if (!std::isfinite(value) || value < least) {
    refuse_server(std::string(what) + " of the optimizer is " + std::to_string(value) + "; give " +
                  std::to_string(least) + " or more");
  }
}

void check(const Optimizer& optimizer) {
  if (const auto* const sgd = std::get_if<Sgd>(&optimizer)) require_at_least(sgd->rate, 0, "rate");
  if (const auto* const one = std::get_if<Momentum>(&optimizer)) {
    require_at_least(one->rate, 0, "rate");
    require_at_least(one->momentum, 0, "momentum");
  }
  if (const auto* const adam = std::get_if<Adam>(&optimizer)) {
    require_at_least(adam->rate, 0, "rate");
    require_at_least(adam->epsilon, 0, "epsilon");
    for (const float beta : {adam->beta1, adam->beta2}) {
      require_at_least(beta, 0, "beta");
      if (beta >= 1)
        refuse_server("a beta of the optimizer is " + std::to_string(beta) + "; give less than 1");
    }
  }
}

ExchangeOptions cut_options_of(const ServerOptions& options) {
  if (options.policy == Policy::kBucketed)
    refuse_server("the policy is kFifo or kPriority, not kBucketed");
  if (options.partition_bytes == 0 || options.credit_bytes == 0)
    refuse_server("partition_bytes and credit_bytes are 1 or more");
  return {.policy = options.policy,
          .synchronous = options.synchronous,
          .partition_bytes = options.partition_bytes,
          .credit_bytes = options.credit_bytes};
}

std::vector<Gradient> gradients_of(const std::vector<Parameter>& parameters) {
  std::vector<Gradient> gradients;
  for (const Parameter& one : parameters) {
    if (one.weights.size() != one.gradient.size()) {
      refuse_server("\"" + one.name + "\" has weights of " + std::to_string(one.weights.size()) +
                    " bytes and a gradient of " + std::to_string(one.gradient.size()) +
                    "; the two are of one size");
    }
    gradients.push_back({.name = one.name, .data = one.gradient});
  }
  return gradients;
}

}  // namespace

bool ServerPlan::has(const std::vector<int>& ranks, int rank) noexcept {
  return std::ranges::find(ranks, rank) != ranks.end();
}

ServerPlan::ServerPlan(std::vector<Parameter> given, const ServerOptions& options, int ranks)
    : parameters(std::move(given)),
      servers(options.servers),
      workers(options.workers),
      cut_options(cut_options_of(options)),
      cut(gradients_of(parameters), cut_options) {
  if (servers.empty()) refuse_server("there is no server; name at least one rank");
  require_ranks(servers, ranks, "servers");
  require_ranks(workers, ranks, "workers");
  for (int rank = 0; options.workers.empty() && rank < ranks; ++rank) {
    if (!has(servers, rank) || servers.size() == static_cast<std::size_t>(ranks)) {
      workers.push_back(rank);
    }
  }
  std::ranges::sort(workers);
  std::ranges::sort(servers);
  check(options.optimizer);
  if (options.staleness.has_value()) {
    if (options.synchronous) refuse_server("a bound of staleness is for asynchronous servers");
    if (*options.staleness < 0) {
      refuse_server("the bound of staleness is " + std::to_string(*options.staleness) +
                    "; give 0 or more");
    }
    if (*options.staleness == 0 && !std::holds_alternative<Sgd>(options.optimizer)) {
      refuse_server(
          "with a bound of staleness of 0 all workers' gradients of a step come before the next, "
          "and each would be a step of its own to the optimizer's momentum; use synchronous");
    }
  }

  // The next piece is of the server that has the fewest bytes so far. So no server has more than
  // another by more than a piece.
  std::vector<std::uint64_t> load(servers.size());
  for (std::uint32_t tensor = 0; tensor < parameters.size(); ++tensor) {
    const Unit& unit = cut.units[tensor];
    first_piece.push_back(static_cast<std::uint32_t>(pieces.size()));
    for (std::uint32_t i = 0; i < unit.pieces; ++i) {
      const auto least = std::ranges::min_element(load);
      *least += unit.bytes_of(i);
      pieces.push_back({.tensor = tensor,
                        .first_byte = i * unit.piece_bytes,
                        .bytes = unit.bytes_of(i),
                        .owner = servers[static_cast<std::size_t>(least - load.begin())]});
    }
  }
  first_piece.push_back(static_cast<std::uint32_t>(pieces.size()));
}

}  // namespace leat::comm
