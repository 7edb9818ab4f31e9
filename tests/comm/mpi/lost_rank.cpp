// Usage: mpirun ... lost_rank <how> <rank> <folder>
//
// All ranks sum over and over. At one step rank <rank> is lost in the middle of an operation: <how>
// is killed, killed_in_transfer (at any moment), stopped, exits, late, or late_small (for a small
// sum, of which the others' parts are here long since). Or killed_at_end, when
// the others end: they end too. Or chain_killed, chain_stopped: at that step each rank receives
// from the one before, so only the second waits for the first. Each rank that lives writes what
// became of it to <folder>/outcome-<r>: "ok", and the error; or what is wrong with it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "leat/comm/communicator.h"

namespace {

using namespace std::chrono_literals;
using leat::comm::CommError;
using leat::comm::CommMismatch;
using leat::comm::Communicator;
using Clock = std::chrono::steady_clock;

constexpr auto kDeadline = 800ms;
constexpr int kStep = 10;  // a large sum

struct Plan {
  std::string how;
  int lost;
  std::filesystem::path folder;
};

void write(const Plan& plan, int rank, const std::string& outcome) {
  const std::filesystem::path name = plan.folder / ("outcome-" + std::to_string(rank));
  std::ofstream(name.string() + ".new") << outcome << '\n';
  std::filesystem::rename(name.string() + ".new", name);
}

// The rank to be lost, which has begun an operation or not.
void lose(const Plan& plan, const Communicator& me) {
  if (plan.how == "killed" || plan.how == "chain_killed") std::raise(SIGKILL);
  if (plan.how == "killed_in_transfer") {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::microseconds(::getpid() * 7919L % 10'000));
      std::raise(SIGKILL);
    }).detach();
  }
  if (plan.how == "stopped" || plan.how == "chain_stopped")
    ::kill(::getpid(), SIGSTOP);  // the script lets it go on
  if (plan.how == "exits") std::exit(0);
  for (int rank = 0; plan.how.starts_with("late") && rank < me.size();) {
    if (rank == me.rank() ||
        std::filesystem::exists(plan.folder / ("outcome-" + std::to_string(rank)))) {
      ++rank;
    } else {
      std::this_thread::sleep_for(10ms);
    }
  }
}

// Sums until that fails. Small and large sums in turns.
std::string sum_on(const Plan& plan, Communicator& me) {
  std::vector<float> small(plan.how == "killed_in_transfer" ? std::size_t{4} << 20 : 3);
  std::vector<float> large(std::size_t{4} << 20);
  const bool is_lost = me.rank() == plan.lost;
  const bool is_late = plan.how.starts_with("late");
  const bool is_chain = plan.how.starts_with("chain");
  const bool before = plan.how == "exits" || is_late || is_chain;  // before it calls
  const int last_step = plan.how == "late_small" ? kStep + 1 : kStep;
  for (int step = 0;; ++step) {
    // Long enough for the watchdog to see that nothing is under way, and to look less often.
    if (plan.how == "late" && step == last_step) std::this_thread::sleep_for(2 * kDeadline);
    const auto began = Clock::now();
    if (plan.how == "killed_at_end" && step == last_step) {
      if (is_lost) std::raise(SIGKILL);
      return "ok";
    }
    try {
      if (is_chain && step == last_step) {
        if (is_lost) lose(plan, me);
        // Those that wait longest find out first.
        std::this_thread::sleep_for(100ms * (me.size() - me.rank()));
        me.recv(small, (me.rank() + me.size() - 1) % me.size()).await();
        return "a value, from a rank that waits";
      }
      if (is_lost && step == last_step && before) lose(plan, me);
      leat::comm::Completion sum = me.all_reduce(step % 2 == 0 ? large : small);
      if (is_lost && step == last_step && !before) lose(plan, me);
      sum.await();
      if (is_lost && is_late && step == last_step) return "a sum, after the others had failed";
    } catch (const CommError& error) {
      const std::string text = error.what();
      const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
      const bool is_mismatch = dynamic_cast<const CommMismatch*>(&error) != nullptr;
      if (is_mismatch != (plan.how == "exits")) return "wrong kind of error: " + text;
      if (!is_lost && error.peer() != plan.lost) return "wrong peer: " + text;
      if (!is_lost && seconds > std::chrono::duration<double>(kDeadline + 1s).count()) {
        return "after " + std::to_string(seconds) + " s: " + text;
      }
      const auto again = Clock::now();
      try {
        me.barrier().await();
      } catch (const CommError& next) {
        if (next.what() != text) return std::string("another error: ") + next.what();
        if (Clock::now() - again > 100ms) return "not at once: " + text;
        return "ok " + std::to_string(seconds) + " s: " + text;
      }
      return "no error in the next call, after " + text;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const Plan plan{argv[1], std::atoi(argv[2]), argv[3]};
  leat::comm::OpenOptions options;
  options.deadline = kDeadline;
  options.recorder_directory = plan.folder;
  Communicator me = std::move(leat::comm::open("mpi", options).front());
  write(plan, me.rank(), sum_on(plan, me));
  return 0;
}
