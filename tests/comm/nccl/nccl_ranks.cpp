// The places of "nccl": threads, and fibers of schedulers of their own.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/comm/transports/local/local.h"
#include "leat/comm/transports/nccl/nccl.h"
#include "tests/comm/nccl/on_device.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm::support {
namespace {

void run_threads(int ranks, const OpenOptions& options, const RankBody& body) {
  std::vector<std::jthread> threads;
  for (std::shared_ptr<Transport>& end :
       nccl::open_here(ranks, options, [&] { return open_local(ranks, options); })) {
    Communicator rank(OnDevice::around(std::move(end)));
    threads.emplace_back([&body, me = std::move(rank)]() mutable { call_and_check(body, me); });
  }
}

void run_schedulers(int ranks, const OpenOptions& options, const RankBody& body) {
  run_threads(ranks, options, [&](Communicator& me) { run([&] { body(me); }, {.workers = 1}); });
}

}  // namespace

std::vector<RankPlace> rank_places() {
  return {{"NcclThreads", &run_threads}, {"NcclSchedulers", &run_schedulers}};
}

}  // namespace leat::comm::support
