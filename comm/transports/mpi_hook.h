// How comm::open("mpi") finds the library leat::comm_mpi, which a program links or not.
#pragma once

#include <memory>

#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"

namespace leat::comm {

/// This process's end of the world that mpirun started. Throws leat::Error if the program does not
/// link leat::comm_mpi, or if MPI cannot be used.
[[nodiscard]] std::shared_ptr<Transport> open_mpi(const OpenOptions& options);

}  // namespace leat::comm

/// Defined by leat::comm_mpi, whose users have a link option that makes the linker look for it.
/// Null elsewhere. Throws as open_mpi().
extern "C" __attribute__((weak)) std::shared_ptr<leat::comm::Transport>* leat_comm_mpi_open(
    const leat::comm::OpenOptions* options);
