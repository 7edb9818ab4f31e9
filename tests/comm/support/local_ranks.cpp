// The places of "local": fibers of one scheduler, in virtual time; fibers of schedulers of their
// own and plain threads, in real time.
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/comm/support/ranks.h"
#include "tests/support/run.h"

namespace leat::comm::support {
namespace {

std::vector<Communicator> open_ranks(int ranks, const OpenOptions& options) {
  return open("local:" + std::to_string(ranks), options);
}

template <int kWorkers>
void run_fibers(int ranks, const OpenOptions& options, const RankBody& body) {
  leat::support::in_virtual_time({.workers = kWorkers}, [&] {
    TaskGroup group;
    for (Communicator& one : open_ranks(ranks, options)) {
      group.go([&body, me = std::move(one)]() mutable { call_and_check(body, me); });
    }
    group.wait();
  });
}

void run_threads(int ranks, const OpenOptions& options, const RankBody& body) {
  std::vector<std::jthread> threads;
  for (Communicator& one : open_ranks(ranks, options)) {
    threads.emplace_back([&body, me = std::move(one)]() mutable { call_and_check(body, me); });
  }
}

void run_schedulers(int ranks, const OpenOptions& options, const RankBody& body) {
  run_threads(ranks, options, [&](Communicator& me) { run([&] { body(me); }, {.workers = 1}); });
}

}  // namespace

std::vector<RankPlace> rank_places() {
  return {{"FibersOf1Worker", &run_fibers<1>},
          {"FibersOf2Workers", &run_fibers<2>},
          {"Threads", &run_threads},
          {"Schedulers", &run_schedulers}};
}

}  // namespace leat::comm::support
