// What ranks called, in words, for the errors of all transports.
//
// Thread-safe: no state.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "leat/comm/error.h"
#include "leat/comm/transports/operation.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// What one rank called, or did instead.
struct RankCall {
  int rank = -1;     ///< as open() counts
  std::string text;  ///< "barrier (number 7)", "nothing yet", "has left"
};

/// "0-2,5", without blanks.
[[nodiscard]] std::string ranges_of(std::span<const int> ranks);
/// "rank 1", "ranks 0, 2 and 5 to 9". In ascending order, not empty.
[[nodiscard]] std::string describe_ranks(std::span<const int> ranks);
/// "all_reduce of 25 float32 (number 7) of tensor fc1"; `peer`: of a send or recv, as open()
/// counts.
[[nodiscard]] std::string describe(const Operation& operation, int peer = -1);
/// The failure of ranks whose calls do not match `operation`; `blamed` is as Failure::peer. Equal
/// calls are told once: "rank 0: barrier (number 7); ranks 1 to 3: nothing yet".
[[nodiscard]] Failure mismatch(const Operation& operation, int blamed,
                               std::span<const RankCall> calls);
/// The beginning of the failure of an operation that has not ended by the deadline; nobody is
/// blamed yet. `peer` is as above; `missing` are the ranks that have not called it, as open()
/// counts; none: all have.
[[nodiscard]] Failure late_operation(const Operation& operation, int peer,
                                     std::span<const int> missing, Duration deadline);

}  // namespace leat::comm
