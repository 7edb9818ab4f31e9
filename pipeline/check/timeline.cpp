#include "leat/pipeline/check/timeline.h"

#include <algorithm>

namespace leat::pipeline {

std::int64_t ticks_of(const Action& action, const CostModel& model) noexcept {
  if (!computes(action.op)) return 0;
  const StageCost& cost = model.of(action.stage);
  switch (action.op) {
    case Op::kForward: return cost.forward;
    case Op::kBackwardInput: return cost.backward_input;
    case Op::kBackwardWeight: return cost.backward_weight;
    default: return cost.backward_input + cost.backward_weight;
  }
}

Timeline::Timeline(const Schedule& lowered, const CostModel& model)
    : rows_(lowered.rows.size()),
      channels_(static_cast<std::size_t>(std::max(2 * (lowered.stages - 1), 0))),
      link_(model.link) {
  // Each end of a channel is in one row.
  std::vector<std::int32_t> sent(channels_.size());
  std::vector<std::int32_t> received(channels_.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    RowTime& times = rows_[row];
    times.cells.reserve(lowered.rows[row].size());
    for (const Cell& cell : lowered.rows[row]) {
      CellTime& time = times.cells.emplace_back();
      time.first = times.refs.size();
      for (const Action& action : cell) {
        time.work += ticks_of(action, model);
        if (!transfers(action.op)) continue;
        const std::int32_t channel = channel_of(action);
        const std::int32_t index =
            (sends(action.op) ? sent : received)[static_cast<std::size_t>(channel)]++;
        times.refs.push_back({.channel = channel, .index = index, .sends = sends(action.op)});
        auto& values = channels_[static_cast<std::size_t>(channel)].values;
        if (values.size() <= static_cast<std::size_t>(index)) values.emplace_back();
        Transfer& value = values[static_cast<std::size_t>(index)];
        (sends(action.op) ? value.send : value.recv) = {row, times.cells.size() - 1, action};
      }
      time.count = times.refs.size() - time.first;
    }
  }
}

bool Timeline::run(std::optional<int> capacity) {
  capacity_.reset();
  if (capacity) capacity_ = static_cast<std::size_t>(*capacity);
  for (ChannelTime& channel : channels_) {
    channel.sent = channel.received = 0;
    for (Transfer& value : channel.values) {
      value.send_start = value.send_done = value.recv_start = value.recv_done = kNever;
    }
  }
  for (RowTime& row : rows_) {
    row.starts.clear();
    row.now = row.until = 0;
    row.waiting = 0;
    row.is_in_cell = false;
  }
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    ready_.push_back(row);
    while (!ready_.empty()) {
      const std::size_t next = ready_.back();
      ready_.pop_back();
      advance(next);
    }
  }
  return std::ranges::none_of(rows_, &RowTime::is_in_cell);
}

/// The row goes on from where it is, until a cell has transfers that are not done.
void Timeline::advance(std::size_t index) {
  RowTime& row = rows_[index];
  while (row.waiting == 0) {
    if (row.is_in_cell) row.now = row.until;
    row.is_in_cell = row.starts.size() < row.cells.size();
    if (!row.is_in_cell) return;
    const std::size_t column = row.starts.size();
    const CellTime& cell = row.cells[column];
    row.starts.push_back(row.now);
    row.until = row.now + cell.work;
    if (cell.count == 0) continue;
    row.waiting = cell.count + 1;  // one more: time_transfers() does not make this row ready
    for (const TransferRef& ref : refs(index, column)) {
      ChannelTime& channel = channels_[static_cast<std::size_t>(ref.channel)];
      Transfer& value = channel.values[static_cast<std::size_t>(ref.index)];
      (ref.sends ? value.send_start : value.recv_start) = row.now;
    }
    for (const TransferRef& ref : refs(index, column)) {
      time_transfers(channels_[static_cast<std::size_t>(ref.channel)]);
    }
    --row.waiting;
  }
}

void Timeline::time_transfers(ChannelTime& channel) {
  std::vector<Transfer>& values = channel.values;
  if (capacity_ == 0U) {  // both sides meet
    for (; channel.sent < values.size(); ++channel.sent) {
      Transfer& value = values[channel.sent];
      if (value.send_start == kNever || value.recv_start == kNever) return;
      value.send_done = value.recv_done = std::max(value.send_start, value.recv_start) + link_;
      done(value.send.row, value.send_done);
      done(value.recv.row, value.recv_done);
    }
    return;
  }
  for (bool moved = true; moved;) {
    moved = false;
    if (channel.sent < values.size() && values[channel.sent].send_start != kNever) {
      Transfer& value = values[channel.sent];
      const bool is_first = !capacity_ || channel.sent < *capacity_;
      const std::int64_t room = is_first ? 0 : values[channel.sent - *capacity_].recv_done;
      if (room != kNever) {
        value.send_done = std::max(value.send_start, room);
        ++channel.sent;
        done(value.send.row, value.send_done);
        moved = true;
      }
    }
    if (channel.received < channel.sent && values[channel.received].recv_start != kNever) {
      Transfer& value = values[channel.received++];
      value.recv_done = std::max(value.recv_start, value.send_done + link_);
      done(value.recv.row, value.recv_done);
      moved = true;
    }
  }
}

/// A transfer of the row's current cell is done.
void Timeline::done(std::size_t index, std::int64_t at) {
  RowTime& row = rows_[index];
  row.until = std::max(row.until, at);
  if (--row.waiting == 0) ready_.push_back(index);
}

std::int64_t Timeline::makespan() const noexcept {
  std::int64_t latest = 0;
  for (const RowTime& row : rows_) latest = std::max(latest, row.now);
  return latest;
}

Stop Timeline::stop() const {
  Stop stop;
  std::vector<std::size_t> waits_for(rows_.size(), rows_.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (!rows_[row].is_in_cell) continue;
    const std::size_t column = rows_[row].starts.size() - 1;
    for (const TransferRef& ref : refs(row, column)) {
      const Transfer& value = at(ref);
      if ((ref.sends ? value.send_done : value.recv_done) != kNever) continue;
      const Endpoint& own = ref.sends ? value.send : value.recv;
      const std::size_t peer = (ref.sends ? value.recv : value.send).row;
      stop.stuck.push_back({.row = row, .column = column, .action = own.action, .peer = peer});
      if (waits_for[row] == rows_.size()) waits_for[row] = peer;
    }
  }
  if (stop.stuck.empty()) return stop;
  // Who waits for a rank that has ended is a fault of another kind; there is no cycle then.
  std::vector<std::size_t> path;
  std::vector<bool> seen(rows_.size());
  std::size_t row = stop.stuck.front().row;
  for (; row < rows_.size() && !seen[row]; row = waits_for[row]) {
    seen[row] = true;
    path.push_back(row);
  }
  if (row < rows_.size()) stop.cycle.assign(std::ranges::find(path, row), path.end());
  return stop;
}

}  // namespace leat::pipeline
