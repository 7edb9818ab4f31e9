// Usage: mpirun -np 4 ... lost_party <how> <rank> <folder>
//
// Ranks 0 to 2 train, and rank 3 serves the parameters. <how> is <mode>_<way>: synchronous, bounded
// (asynchronous, with a bound of staleness), asynchronous, alone (likewise, and rank <rank> is the
// only worker), or pair (synchronous, and rank 2 serves, too: a dead server holds up what workers
// send to the other one); the rank is killed or stopped in the middle of a step. Or it never
// fetches (asynchronous_unfetched), or computes for some deadlines, and ends then (alone_busy).
// Each rank that lives writes what became of it to <folder>/outcome-<r>: "ok", and the error; or
// what is wrong with it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/comm/parameter_server.h"

namespace {

using namespace std::chrono_literals;
using leat::comm::CommError;
using leat::comm::CommMismatch;
using leat::comm::Communicator;
using leat::comm::Completion;
using leat::comm::ParameterServer;
using leat::comm::ServerOptions;
using Clock = std::chrono::steady_clock;

constexpr auto kDeadline = 800ms;
constexpr int kServer = 3;
constexpr int kLostAt = 10;  // a step
constexpr int kSteps = 100;  // if nobody waits for the rank; rank 0 trains on for some deadlines

struct Plan {
  std::string mode, way;
  int lost;
  std::filesystem::path folder;
  // Whether the other workers wait for the lost rank sooner or later.
  [[nodiscard]] bool is_awaited() const {
    return lost == kServer || is_synchronous() || mode == "bounded";
  }
  [[nodiscard]] bool is_synchronous() const { return mode == "synchronous" || is_pair(); }
  [[nodiscard]] bool is_pair() const { return mode == "pair"; }
  [[nodiscard]] bool is_alone() const { return mode == "alone"; }
  [[nodiscard]] bool lives() const { return way == "unfetched" || way == "busy"; }
};

struct Model {
  std::vector<std::vector<float>> weights{std::vector<float>(200'000), std::vector<float>(10)};
  std::vector<std::vector<float>> gradients = weights;
  [[nodiscard]] std::vector<leat::comm::Parameter> parameters() {
    const auto span = [](std::vector<float>& values) {
      return leat::gpu::DeviceSpan(values.data(), values.size() * sizeof(float));
    };
    return {{.name = "large", .weights = span(weights[0]), .gradient = span(gradients[0])},
            {.name = "small", .weights = span(weights[1]), .gradient = span(gradients[1])}};
  }
};

void write(const Plan& plan, int rank, const std::string& outcome) {
  const std::filesystem::path name = plan.folder / ("outcome-" + std::to_string(rank));
  std::ofstream(name.string() + ".new") << outcome << '\n';
  std::filesystem::rename(name.string() + ".new", name);
}

void lose(const Plan& plan) {
  if (plan.way == "killed") std::raise(SIGKILL);
  if (plan.way == "stopped") ::kill(::getpid(), SIGSTOP);  // the script lets it go on
  if (plan.way == "busy") std::this_thread::sleep_for(3 * kDeadline);
}

// As a worker; throws what ends it. `began`: when the step did.
void train(const Plan& plan, ParameterServer& server, int rank, Clock::time_point& began) {
  const bool is_lost = rank == plan.lost;
  const bool fetches = !is_lost || plan.way != "unfetched";
  const auto end = Clock::now() + (rank == 0 && !plan.is_alone() ? 3 * kDeadline : 0ms);
  for (int step = 0; plan.is_awaited() || step < kSteps || Clock::now() < end; ++step) {
    began = Clock::now();
    server.begin_step(1);
    std::vector<Completion> all;
    for (const std::size_t i : {1U, 0U}) {
      all.push_back(server.send_vars(i));
      if (is_lost && step == kLostAt && i == 1) lose(plan);
      if (fetches) all.push_back(server.fetch_vars(i));
    }
    if (plan.is_synchronous()) all.push_back(server.send_barrier());
    for (Completion& one : all) one.await();
  }
}

// Serves until all workers have left; is lost in the middle of an update of the workers' steps.
void serve(const Plan& plan, ParameterServer& server, bool is_lost) {
  std::optional<std::jthread> other;
  if (is_lost) {
    other.emplace([&] {
      while (server.stats().updates < kLostAt) std::this_thread::sleep_for(1ms);
      lose(plan);
    });
  }
  server.serve();
}

// Until it ends or fails. Returns whether that is as it should be.
std::string take_part(const Plan& plan, const Communicator& me) {
  const bool is_lost = me.rank() == plan.lost;
  const bool serves = me.rank() == kServer || (plan.is_pair() && me.rank() == kServer - 1);
  Model model;
  ServerOptions options{.servers = {kServer},
                        .synchronous = plan.is_synchronous(),
                        .partition_bytes = std::size_t{128} << 10};
  if (plan.mode == "bounded") options.staleness = 2;
  if (plan.is_pair()) {
    options.servers = {kServer - 1, kServer};
    options.credit_bytes = options.partition_bytes;
  }
  if (plan.is_alone()) options.workers = {plan.lost};
  ParameterServer server(me, model.parameters(), options);
  auto began = Clock::now();
  if (!serves && plan.is_alone() && !is_lost) return "ok";
  // A server finds out once the others have left; a worker that does not fetch is not missed.
  const bool fails = !plan.lives() && (serves || plan.is_awaited());
  try {
    // Else two workers' steps lose a rank while the third still loads its weights.
    if (plan.mode == "asynchronous") me.barrier().await();
    began = Clock::now();
    serves ? serve(plan, server, is_lost) : train(plan, server, me.rank(), began);
    if (fails && !is_lost) return "no error";
    server.serve();
    return "ok";
  } catch (const CommError& error) {
    const std::string text = error.what();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    if (!fails && !is_lost) return "an error: " + text;
    if (dynamic_cast<const CommMismatch*>(&error) != nullptr) return "a mismatch: " + text;
    if (!is_lost && error.peer() != plan.lost) return "wrong peer: " + text;
    if (!serves && !is_lost && error.tensor().empty()) return "no tensor: " + text;
    if (!serves && !is_lost && seconds > std::chrono::duration<double>(kDeadline + 1s).count()) {
      return "after " + std::to_string(seconds) + " s: " + text;
    }
    try {
      serves ? server.serve() : server.begin_step(1);
    } catch (const CommError& next) {
      if (next.what() == text) return "ok " + std::to_string(seconds) + " s: " + text;
      return std::string("another error: ") + next.what();
    }
    return "no error in the next call, after " + text;
  }
}

// A rank that ends long before the others is an error for them: waits until they have an outcome.
void await_others(const Plan& plan, const Communicator& me) {
  for (int rank = 0; rank < me.size();) {
    const bool is_dead = rank == plan.lost && !plan.lives();
    if (is_dead || std::filesystem::exists(plan.folder / ("outcome-" + std::to_string(rank)))) {
      ++rank;
    } else {
      std::this_thread::sleep_for(10ms);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string how = argv[1];
  const std::size_t middle = how.find('_');
  const Plan plan{how.substr(0, middle), how.substr(middle + 1), std::atoi(argv[2]), argv[3]};
  leat::comm::OpenOptions options;
  options.deadline = kDeadline;
  Communicator me = std::move(leat::comm::open("mpi", options).front());
  write(plan, me.rank(), take_part(plan, me));
  if (!plan.is_awaited()) await_others(plan, me);
  return 0;
}
