// The state that a run resumes from: whether it is of this run.
#pragma once

#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/state.h"

namespace leat::feeder {

/// Returns the epochs of the state `text`, from which a run with `head` resumes. Throws leat::Error
/// for a text that is damaged, or of a run with another dataset or other options. Does not read
/// `head.epochs`.
[[nodiscard]] std::vector<EpochReleases> epochs_to_resume(const Dataset& dataset, const State& head,
                                                          std::string_view text);

}  // namespace leat::feeder
