// A rank of "nccl": one GPU a process, on stand-ins for NCCL and for the CUDA runtime. Each
// operation is done in device memory.
#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "tests/comm/mpi/process.h"
#include "tests/comm/nccl/on_device.h"
#include "tests/comm/nccl/process.h"
#include "tests/comm/nccl/stand_in/stand_in.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"

namespace leat::comm::support {

const char* process_title() { return "NcclMpi"; }

const std::shared_ptr<Transport>& nccl_of_process() {
  static const Communicator ranks = [] {
    Dl_info library{};
    dladdr(reinterpret_cast<const void*>(&nccl_stand_in::reset), &library);
    setenv("LEAT_NCCL_LIBRARY", library.dli_fname, 1);
    stand_in::set_devices(4);
    return std::move(open("nccl").front());
  }();
  return ranks.transport();
}

Communicator open_process(const OpenOptions& /*options*/) {
  return Communicator(OnDevice::around(nccl_of_process()));
}

}  // namespace leat::comm::support
