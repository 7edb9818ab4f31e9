// What the exchanges of all ranks must have in common.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/exchange/plan.h"
#include "leat/comm/gradient_exchange.h"

namespace leat::comm {

/// Compares the options and the gradients of all ranks, and `more` texts of an `operation`. A
/// collective: waits for all ranks. Returns the ranks in the world, by rank. If anything differs,
/// fails the world and throws CommMismatch, on all ranks. Throws as Completion::await().
[[nodiscard]] std::vector<int> agree(const Communicator& ranks, const Plan& plan,
                                     const ExchangeOptions& options,
                                     const char* operation = "GradientExchange",
                                     const std::vector<std::string>& more = {});
/// Compares a list of tensors as agree() does: number, names, types and sizes. `what` is their name
/// in the error: "gradient". `in_world`: what agree() has returned.
void agree_on_tensors(const Communicator& ranks, const std::vector<int>& in_world,
                      std::span<const Gradient> tensors, const std::string& what,
                      const char* operation = "GradientExchange");

}  // namespace leat::comm
