// Double buffering: two fibers, two buffers between them, a memcpy in and a memcpy out.
//
// Arguments: KiB of a buffer; pairs of fibers at once; workers. An operation is one buffer of one
// pair. With two workers the two memcpy overlap, if the runtime lets them.

#include "bench/csp/leat_peer.h"

namespace {

[[maybe_unused]] const bool kAdded = bench::add_problems({"DoubleBuffer/"});

}  // namespace
