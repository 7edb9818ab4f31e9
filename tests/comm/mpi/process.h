// What a process of the conformance suite under mpirun is a rank of: the program says it.
#pragma once

#include "leat/comm/communicator.h"

namespace leat::comm::support {

/// The name of the place, in the tests' titles.
[[nodiscard]] const char* process_title();
/// This process's rank of the world, opened with these options at the first call.
[[nodiscard]] Communicator open_process(const OpenOptions& options);

}  // namespace leat::comm::support
