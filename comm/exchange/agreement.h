// What the exchanges of all ranks must have in common.
#pragma once

#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/exchange/plan.h"
#include "leat/comm/gradient_exchange.h"

namespace leat::comm {

/// Compares the options and the gradients of all ranks. A collective: waits for all ranks. Returns
/// the ranks in the world, by rank. If anything differs, fails the world and throws CommMismatch,
/// on all ranks. Throws as Completion::await().
[[nodiscard]] std::vector<int> agree(const Communicator& ranks, const Plan& plan,
                                     const ExchangeOptions& options);

}  // namespace leat::comm
