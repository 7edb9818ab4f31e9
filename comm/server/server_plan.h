// Who owns which piece of which parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/comm/exchange/plan.h"
#include "leat/comm/parameter_server.h"

namespace leat::comm {

/// The plan of a ParameterServer; the same on all ranks.
struct ServerPlan {
  struct Piece {
    std::uint32_t tensor = 0;
    std::uint64_t first_byte = 0;  ///< in the parameter
    std::uint64_t bytes = 0;
    int owner = 0;  ///< a rank
  };

  /// Makes the plan for a communicator of `ranks` ranks. Throws std::invalid_argument as
  /// ParameterServer's constructor.
  ServerPlan(std::vector<Parameter> parameters, const ServerOptions& options, int ranks);

  std::vector<Parameter> parameters;
  std::vector<int> servers, workers;
  ExchangeOptions cut_options;             ///< the options of an exchange of the same gradients
  Plan cut;                                ///< the plan of that exchange
  std::vector<Piece> pieces;               ///< by parameter, then by place
  std::vector<std::uint32_t> first_piece;  ///< of each parameter, and one more: the end
  /// Whether a rank is among `ranks`.
  [[nodiscard]] static bool has(const std::vector<int>& ranks, int rank) noexcept;
};

}  // namespace leat::comm
