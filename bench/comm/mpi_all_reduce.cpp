// An all-reduce between processes: the transport "mpi", as a contestant of bench/peers/comm. Each
// process is started by mpirun, and its rank is a fiber.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "bench/peers/comm/peer.h"
#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"

int main(int argc, char** argv) {
  int status = 1;
  try {
    leat::run(
        [&] {
          const leat::comm::Communicator ranks = std::move(leat::comm::open("mpi").front());
          const peer::Algorithms make = [&](float* data, std::size_t count) {
            const leat::comm::Elements elements(data, count, leat::comm::DType::kFloat32);
            return std::vector<peer::Algorithm>{
                {"all_reduce", [&ranks, elements] { ranks.all_reduce(elements).await(); }}};
          };
          status = peer::Measurement(ranks.rank(), ranks.size(), make).run(argc, argv);
          if (status != 0) ranks.abort("the benchmark failed");
        },
        {.workers = 1});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return status;
}
