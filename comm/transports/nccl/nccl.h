// The transport "nccl": data in the memory of GPUs is moved by NCCL, a rank on each GPU; all the
// rest is that of a transport beside it, local or mpi.
//
// An operation on device memory begins there as one that moves nothing: so the ranks agree on what
// they call, as on any transport, before NCCL, which would wait for ever, is called
// (transport.cpp). NCCL's library is opened at run time. A build without nccl.h has absent.cpp
// instead of all of it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"

namespace leat::comm::nccl {

/// "nccl:N": `ranks` ranks in this process, by rank; their transport beside is what `beside` opens.
/// Throws Error that names what is missing: the library, the driver, a GPU; std::invalid_argument
/// for devices that do not fit; and what `beside` throws.
[[nodiscard]] std::vector<std::shared_ptr<Transport>> open_here(
    int ranks, const OpenOptions& options,
    const std::function<std::vector<std::shared_ptr<Transport>>()>& beside);

/// "nccl": this process's rank. As above.
[[nodiscard]] std::vector<std::shared_ptr<Transport>> open_in_process(
    const OpenOptions& options, const std::function<std::shared_ptr<Transport>()>& beside);

}  // namespace leat::comm::nccl
