// Whether a schedule can run: what is missing, what is in a wrong order, where it would stop.
//
// The rules of transfers, here as in simulate.h and executor.h:
//  - A channel has c places. A Send is done when its value has a place. The value keeps that place
//    until its Recv is done. With c = 0 both sides meet.
//  - A Recv is in a cell before its use, a Send in a cell after its producer.
//  - WAIT_SEND follows its Send. It takes no time, nor do the actions without a microbatch.
// So where a schedule stops depends on c alone, not on times. A schedule that runs with c places
// runs with more, too.
//
// Everything here is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "leat/pipeline/schedule.h"

namespace leat::pipeline {

/// Returns the schedule with Sends and Recvs: each Recv in a cell of its own right before its use,
/// each Send in one right after its producer; a pair's forward comes first. Returns a schedule that
/// has transfers as it is. The schedule must have passed check().
[[nodiscard]] Schedule lower(const Schedule& order);

/// A transfer that is never done.
struct StuckTransfer {
  std::size_t row = 0;
  std::size_t column = 0;
  Action action;
  std::size_t peer = 0;  ///< the rank at the other end
};
/// Where a schedule stops.
struct Stop {
  std::vector<StuckTransfer> stuck;  ///< in the order of rows: of each row that does not end
  std::vector<std::size_t> cycle;    ///< ranks, each waiting for the next, the last for the first
};

/// Returns where a lowered schedule stops with `capacity` places for each channel (no value: as
/// many as it wants); none if it runs to its end. The schedule must have no other fault.
[[nodiscard]] std::optional<Stop> find_stop(const Schedule& lowered, std::optional<int> capacity);

/// How many places a lowered schedule wants for each channel.
struct Capacities {
  std::optional<int> to_run;      ///< the least that it runs with; none: it stops with any number
  std::optional<int> full_speed;  ///< the least that makes it as fast as any number does, if
                                  ///< f = i = w = 1
};
/// Finds the capacities of a lowered schedule.
[[nodiscard]] Capacities capacities(const Schedule& lowered);

/// What check() is asked.
struct CheckOptions {
  /// Places of a channel. None: 0 for a lowered schedule; for an order, any number that it runs
  /// with.
  std::optional<int> capacity = {};
  /// The most activations for each rank; one value: for all of them. Empty: any number.
  std::vector<std::int64_t> limit = {};
};
/// What check() has found.
struct CheckResult {
  /// Faults, a stop among them; empty: the schedule can run.
  std::vector<Finding> findings;
  std::optional<Stop> stop;
  Capacities capacities;  ///< set if a stop is the only fault, or there is none
  /// The findings, for people. For a stop also every stuck cell, the cycle, the least capacity that
  /// runs, and the grid with the stuck cells marked.
  [[nodiscard]] std::string report(const Schedule& schedule) const;
};
/// Checks the rules at the head of the file. Also checks that each stage and microbatch has one
/// forward, and one B or an I and a W, in order; that no stage is missing or on two ranks; that
/// every Recv has its Send, in the order of the channel; that activations keep to the limit. Throws
/// std::invalid_argument for a limit less than 1, more or fewer limits than ranks, and a negative
/// capacity.
[[nodiscard]] CheckResult check(const Schedule& schedule, const CheckOptions& options = {});

/// The most activations that live at once, from the start of F to the end of B or W, of each rank.
[[nodiscard]] std::vector<std::int64_t> peak_activations(const Schedule& schedule);

}  // namespace leat::pipeline
