// Where the system has no more threads: each place that starts one tells which, why and what to do,
// and leaves all as it was; who can do without one does.
#include "tests/support/thread_limit.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/blocking.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/sources/function.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/live/terminal.h"
#include "tests/feeder/sources/web_files.h"
#include "tests/support/child.h"
#include "tests/support/gate.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace thread_limit_test {

using support::allow_threads;

// Calls `start` where there is no thread, and once more where there is. Returns what is wrong.
std::string refused(const std::string& what, const std::function<void()>& start) {
  allow_threads(false);
  const std::size_t before = support::threads();
  const std::string text = support::text_thrown_by<Error>(start);
  if (!support::threads_become(before)) return "threads are left behind";
  allow_threads(true);
  start();
  return text.starts_with("leat: cannot start " + what + ": ") &&
                 text.find("raise the limit on threads (ulimit -u") != std::string::npos
             ? ""
             : text;
}

std::string worker() {
  VirtualClock clock;  // free again after the error
  return refused("worker 1 of 2 of a scheduler",
                 [&] { const Scheduler scheduler({.workers = 2, .clock = &clock}); });
}

std::string worker_of_a_run() {
  return refused("worker 2 of 2 of a scheduler", [] { run([] {}, {.workers = 2}); });
}

std::string sigquit() {
  struct sigaction before = {};
  sigaction(SIGQUIT, nullptr, &before);
  const std::string wrong = refused("the thread that answers SIGQUIT",
                                    [] { run([] {}, {.workers = 1, .dump_on_sigquit = true}); });
  struct sigaction now = {};
  sigaction(SIGQUIT, nullptr, &now);
  return now.sa_handler == before.sa_handler ? wrong : "the handler is left behind";
}

std::string blocking_call() {
  return run(
      [] {
        return refused("a thread for blocking()", [] {
          if (blocking([] { return 3; }) != 3) throw Error("another result");
        });
      },
      {.workers = 1});
}

std::string host_device() {
  return refused("worker 1 of 3 of a scheduler", [] { gpu::Stream(gpu::open("host")).sync(); });
}

// Its own fiber cannot join its threads: they are there until another thread can.
std::string last_handle_in_a_kernel() {
  struct Last {
    Last(gpu::Device last, Notification& drop) : device(std::move(last)), dropped(drop) {}
    Last(const Last&) = delete;
    Last& operator=(const Last&) = delete;
    ~Last() {
      device.reset();
      dropped.notify();
    }
    std::optional<gpu::Device> device;
    Notification& dropped;
  };
  const std::size_t before = support::threads();
  Notification dropped;
  std::optional<support::Gate> gate;
  {
    const gpu::Stream stream(gpu::open("host"));
    gate.emplace(stream);
    stream.launch_host([last = std::make_unique<Last>(stream.device(), dropped)] {});
  }
  allow_threads(false);
  gate->open();
  dropped.wait();
  if (support::threads() != before + 3) return "its threads have ended, or others were started";
  allow_threads(true);
  return support::threads_become(before) ? "" : "its threads do not end";
}

std::string live_view() {
  const Pipe pipe;
  const support::Numbers data({.size = 8});
  const gpu::Device device = gpu::open("host");
  return refused("the thread of the live view", [&] {
    const Prefetcher feed(data, device, {.batch_size = 4, .live = Live{.fd = pipe.to.get()}});
  });
}

std::string web_index() {
  allow_threads(true);  // the files are this user's, then
  const TemporaryDirectory directory;
  std::vector<std::filesystem::path> shards;
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i);
    shards.push_back(directory.write(name + ".tar", tar_file(name + ".cls", name) + tar_end()));
  }
  allow_threads(false);
  const WebDataset data(shards, {.parts = {class_label("label")}});
  return data.size() == 4 ? "" : "not all shards were read";
}

// A read that may block, and that asks for a thread to do so, is done without one.
std::string reader() {
  const support::Numbers numbers({.size = 8});
  const FunctionDataset data(
      "seldom", {numbers.fields().begin(), numbers.fields().end()}, numbers.size(),
      [&](std::uint64_t index, Sample& out) { numbers.read(index, out); }, Blocking::kSeldom);
  return run(
      [&] {
        allow_threads(false);
        Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
        std::size_t batches = 0;
        for (const Lease& batch : feed.epoch(0)) batches += batch.size() / 4;
        return std::string(batches == 2 ? "" : "not all batches came");
      },
      {.workers = 1});
}

struct Place {
  const char* name;
  std::string (*wrong)();
};

class ThreadLimit : public testing::TestWithParam<Place> {};

TEST_P(ThreadLimit, IsToldOrDoneWithout) { EXPECT_EQ(support::in_child(GetParam().wrong), ""); }

INSTANTIATE_TEST_SUITE_P(Places, ThreadLimit,
                         testing::Values(Place{"Worker", worker},
                                         Place{"WorkerOfARun", worker_of_a_run},
                                         Place{"Sigquit", sigquit},
                                         Place{"BlockingCall", blocking_call},
                                         Place{"HostDevice", host_device},
                                         Place{"LastHandleInAKernel", last_handle_in_a_kernel},
                                         Place{"LiveView", live_view}, Place{"Reader", reader},
                                         Place{"WebIndex", web_index}),
                         [](const auto& place) { return std::string(place.param.name); });

}  // namespace thread_limit_test
}  // namespace leat::feeder
