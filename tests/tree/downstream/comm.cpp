// A user's program whose ranks sum up numbers: fibers of this process, or processes of mpirun.
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "local:2";
  std::atomic<bool> is_right = true;
  leat::run([&] {
    std::vector<leat::comm::Communicator> here = leat::comm::open(name);
    leat::TaskGroup group;
    for (leat::comm::Communicator& ranks : here) {
      group.go([&] {
        std::vector<float> numbers(3, static_cast<float>(ranks.rank() + 1));
        ranks.all_reduce(numbers).await();
        const int sum = ranks.size() * (ranks.size() + 1) / 2;
        if (numbers != std::vector<float>(3, static_cast<float>(sum))) is_right = false;
        if (ranks.rank() == 0) std::printf("%d ranks, %g\n", ranks.size(), double{numbers[0]});
      });
    }
    group.wait();
  });
  return is_right ? 0 : 1;
}
