// The transport "nccl": data in the memory of GPUs is moved by NCCL, a rank on each GPU. A
// transport beside it, local or mpi, does all the rest.
//
// An operation on device memory first begins there, as one that moves nothing. So the ranks agree
// on what they call before NCCL is called, which would wait for ever for a missing rank
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
