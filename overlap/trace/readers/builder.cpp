#include "leat/overlap/trace/readers/builder.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace overlap::trace {

void Builder::add(std::int64_t device, std::string_view stream, Op op, Correlation of) {
  DeviceOps& on = devices_[device];
  auto found = on.numbers.find(stream);
  if (found == on.numbers.end()) {
    found = on.numbers.emplace(stream, static_cast<std::uint32_t>(on.streams.size())).first;
    on.streams.emplace_back(stream);
  }
  op.stream = found->second;
  on.ops.push_back(op);
  on.of.push_back(of);
}

void Builder::add(const Call& call, Correlation of) {
  trace_.calls.push_back(call);
  calls_.push_back(of);
}

std::uint32_t Builder::thread(const Thread& of) {
  const auto [found, is_new] = threads_.try_emplace(
      {of.process, of.number}, static_cast<std::uint32_t>(trace_.threads.size()));
  if (is_new) trace_.threads.push_back(of);
  return found->second;
}

void Builder::finish() {
  const auto sorted = [](std::size_t count, auto less) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, less);
    return order;
  };
  // Calls by begin; then, of each correlation, the earliest.
  std::vector<Call>& calls = trace_.calls;
  const auto by_begin =
      sorted(calls.size(), [&](auto a, auto b) { return calls[a].begin < calls[b].begin; });
  std::vector<Call> ordered;
  std::vector<std::pair<Correlation, std::uint32_t>> known;
  ordered.reserve(calls.size());
  for (const std::uint32_t i : by_begin) {
    if (calls_[i].number != 0)
      known.emplace_back(calls_[i], static_cast<std::uint32_t>(ordered.size()));
    ordered.push_back(calls[i]);
  }
  calls = std::move(ordered);
  calls_ = {};
  std::ranges::sort(known);
  for (auto& [number, found] : devices_) {
    DeviceOps& of = found;  // clang 14 takes no names of parts into a lambda
    Device device{
        .number = number, .name = names_[number], .streams = std::move(of.streams), .ops = {}};
    device.ops.reserve(of.ops.size());
    const auto order =
        sorted(of.ops.size(), [&](auto a, auto b) { return of.ops[a].begin < of.ops[b].begin; });
    for (const std::uint32_t i : order) {
      Op op = of.ops[i];
      const auto call = std::ranges::lower_bound(known, std::pair(of.of[i], 0U));
      if (of.of[i].number != 0 && call != known.end() && call->first == of.of[i])
        op.call = call->second;
      device.ops.push_back(op);
    }
    of = {};
    trace_.devices.push_back(std::move(device));
  }
  std::ranges::stable_sort(trace_.ranges, {}, &Range::begin);
}

}  // namespace overlap::trace
