// A lowered schedule in model time: when each cell starts, and when each transfer is done, at any
// capacity. It finds stops, capacities and makespans.
//
// Every time is a maximum of earlier ones, so the result does not depend on the order in which
// ranks are looked at. Work is linear in actions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "leat/pipeline/check.h"
#include "leat/pipeline/schedule.h"
#include "leat/pipeline/simulate.h"

namespace leat::pipeline {

/// Ticks that an action takes.
[[nodiscard]] std::int64_t ticks_of(const Action& action, const CostModel& model) noexcept;

class Timeline {
 public:
  static constexpr std::int64_t kNever = -1;  ///< has not happened

  /// A cell that has a transfer: whose and which.
  struct Endpoint {
    std::size_t row = 0;
    std::size_t column = 0;
    Action action;
  };
  /// The k-th value of a channel.
  struct Transfer {
    Endpoint send;
    Endpoint recv;
    std::int64_t send_start = kNever;
    std::int64_t send_done = kNever;
    std::int64_t recv_start = kNever;
    std::int64_t recv_done = kNever;
  };
  /// Where a transfer is.
  struct TransferRef {
    std::int32_t channel = 0;
    std::int32_t index = 0;
    bool sends = false;
  };

  /// `lowered` has no fault except perhaps a stop, and outlives the timeline.
  Timeline(const Schedule& lowered, const CostModel& model);

  /// Runs it from the beginning with `capacity` places (none: any number). Returns whether it
  /// ended.
  bool run(std::optional<int> capacity);

  /// Of the last run: when the last cell ended that has run, over all ranks.
  [[nodiscard]] std::int64_t makespan() const noexcept;
  /// Of the last run, where it stopped.
  [[nodiscard]] Stop stop() const;
  /// Of the last run: when each cell of a row started, of those that have.
  [[nodiscard]] const std::vector<std::int64_t>& starts(std::size_t row) const {
    return rows_[row].starts;
  }
  /// Of the last run: when the row ended; if it stopped, when its last cell started.
  [[nodiscard]] std::int64_t end(std::size_t row) const { return rows_[row].now; }
  /// When a cell ended; the cell must have ended.
  [[nodiscard]] std::int64_t end(std::size_t row, std::size_t column) const {
    const RowTime& times = rows_[row];
    return column + 1 < times.starts.size() ? times.starts[column + 1] : times.now;
  }
  /// Whether the row ended.
  [[nodiscard]] bool ended(std::size_t row) const { return !rows_[row].is_in_cell; }
  /// The transfers of a cell, in its order.
  [[nodiscard]] std::span<const TransferRef> refs(std::size_t row, std::size_t column) const {
    const CellTime& cell = rows_[row].cells[column];
    return {rows_[row].refs.data() + cell.first, cell.count};
  }
  /// A transfer, of the last run.
  [[nodiscard]] const Transfer& at(const TransferRef& ref) const {
    return at(ref.channel, ref.index);
  }
  /// The value of a channel with that number.
  [[nodiscard]] const Transfer& at(std::int32_t channel, std::int32_t index) const {
    return channels_[static_cast<std::size_t>(channel)].values[static_cast<std::size_t>(index)];
  }

 private:
  struct CellTime {
    std::size_t first = 0;  // of its transfers, in refs
    std::size_t count = 0;
    std::int64_t work = 0;
  };
  struct RowTime {
    std::vector<CellTime> cells;
    std::vector<TransferRef> refs;
    // Of a run:
    std::vector<std::int64_t> starts;
    std::int64_t now = 0;     // when the cell before starts.back() ended; at last: the end
    std::int64_t until = 0;   // when the current cell ends, as far as that is known
    std::size_t waiting = 0;  // its transfers that are not done
    bool is_in_cell = false;
  };
  struct ChannelTime {
    std::vector<Transfer> values;
    std::size_t sent = 0;  // the first whose Send is not done
    std::size_t received = 0;
  };

  void advance(std::size_t row);
  void time_transfers(ChannelTime& channel);
  void done(std::size_t row, std::int64_t at);

  std::vector<RowTime> rows_;
  std::vector<ChannelTime> channels_;
  std::int64_t link_;
  std::optional<std::size_t> capacity_;
  std::vector<std::size_t> ready_;  // rows whose cell has ended
};

}  // namespace leat::pipeline
