// The calls of NCCL for a work.
#pragma once

#include "leat/comm/transports/nccl/native.h"
#include "leat/comm/transports/nccl/work.h"

namespace leat::comm::nccl {

/// Enqueues a work of at least one element on the communicator's stream, as rank `rank` of `size`.
/// A message goes to, or comes from, the other rank of two. Throws as Native's functions.
void launch(Native& native, const Work& work, int rank, int size);

}  // namespace leat::comm::nccl
