// The batches of all prefetchers on a profiler's time line.
#pragma once

#include "leat/feeder/stats/batch_record.h"

namespace leat::feeder {

/// Returns the observer that shows each batch to a profiler, as ranges: `leat read 7` while batch 7
/// of its epoch is read, `leat copy 7` while its copy is enqueued, and `leat step 7` from its
/// hand-out to its release. Returns null if no profiler records ranges; then they cost nothing.
/// Call it where there is stack for a library to be loaded. The observer lives as long as the
/// process.
///
/// A read by another process lasts from the request to the answer. A reader that has batches of its
/// own reads under the number by which it was asked: once another such reader has no more batches,
/// that may be higher than the batch's.
[[nodiscard]] Observer* profiler_ranges();

}  // namespace leat::feeder
