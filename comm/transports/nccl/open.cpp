// comm::open("nccl:N") and comm::open("nccl"): what is there, and which rank has which GPU.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "leat/comm/transports/nccl/hub.h"
#include "leat/comm/transports/nccl/library.h"
#include "leat/comm/transports/nccl/nccl.h"
#include "leat/comm/transports/nccl/transport.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"

namespace leat::comm::nccl {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error("leat: comm::open(\"" + name + "\"): " + why);
}

[[noreturn]] void refuse_option(const std::string& name, const std::string& why) {
  throw std::invalid_argument("leat: comm::open(\"" + name + "\"): " + why);
}

// The number of this process on its machine, as mpirun or srun says; 0 if nobody does.
int number_on_machine() {
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                 "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* const set = std::getenv(name);
    int number = 0;
    if (set == nullptr) continue;
    const auto [end, error] = std::from_chars(set, set + std::strlen(set), number);
    if (error == std::errc() && number >= 0) return number;
  }
  return 0;
}

// Those of the ranks here: as the options say, or the GPUs from number `first` on.
std::vector<gpu::Device> devices_of(const std::string& name, const OpenOptions& options, int ranks,
                                    int first) {
  const auto wanted = static_cast<std::size_t>(ranks);
  std::vector<gpu::Device> devices = options.devices;
  if (devices.empty()) {
    const gpu::DeviceList all = gpu::list();
    const auto gpus = static_cast<std::size_t>(std::ranges::count_if(
        all.devices, [](const gpu::DeviceInfo& one) { return one.name.starts_with("cuda:"); }));
    const std::size_t last = static_cast<std::size_t>(first) + wanted;
    if (gpus < last) {
      refuse(name, std::to_string(last) + (last == 1 ? " GPU is" : " GPUs are") +
                       " needed, one for each rank, and there are " + std::to_string(gpus) + " (" +
                       all.cuda_status + ")");
    }
    for (int i = 0; i < ranks; ++i) {
      devices.push_back(gpu::open("cuda:" + std::to_string(first + i)));
    }
  }
  if (devices.size() != wanted) {
    refuse_option(name, std::to_string(devices.size()) + " devices for " + std::to_string(ranks) +
                            " ranks of this process; give one for each");
  }
  for (auto one = devices.begin(); one != devices.end(); ++one) {
    if (!one->capabilities().cuda_kernels) {
      refuse_option(name, "the device " + one->name() + " is no GPU of CUDA's");
    }
    if (std::any_of(devices.begin(), one,
                    [&](const auto& it) { return it.name() == one->name(); })) {
      refuse_option(name,
                    "the device " + one->name() + " is given to two ranks; NCCL has one of each");
    }
  }
  return devices;
}

std::vector<std::shared_ptr<Transport>> open(
    const std::string& name, const OpenOptions& options, int ranks, int first,
    const std::function<std::vector<std::shared_ptr<Transport>>()>& beside) {
  if (options.link.enabled) refuse_option(name, "the link model is for \"local\"");
  std::shared_ptr<const Library> library = Library::open(name);
  const std::vector<gpu::Device> devices = devices_of(name, options, ranks, first);
  std::vector<std::shared_ptr<Transport>> ends = beside();
  World& world = ends.front()->world();
  if (world.is_virtual()) {
    refuse_option(name, "a GPU's time is real, and this fiber has a VirtualClock");
  }
  const auto hub = std::make_shared<Hub>(world, std::move(library));
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ends[i] = std::make_shared<NcclTransport>(std::move(ends[i]), hub, devices[i]);
  }
  return ends;
}

}  // namespace

std::vector<std::shared_ptr<Transport>> open_here(
    int ranks, const OpenOptions& options,
    const std::function<std::vector<std::shared_ptr<Transport>>()>& beside) {
  return open("nccl:" + std::to_string(ranks), options, ranks, 0, beside);
}

std::vector<std::shared_ptr<Transport>> open_in_process(
    const OpenOptions& options, const std::function<std::shared_ptr<Transport>()>& beside) {
  return open("nccl", options, 1, number_on_machine(),
              [&] { return std::vector<std::shared_ptr<Transport>>{beside()}; });
}

}  // namespace leat::comm::nccl
