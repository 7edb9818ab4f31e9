#include "leat/comm/transports/rank_calls.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

namespace leat::comm {
namespace {

std::string in_words(Duration length) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(length).count();
  return milliseconds < 10'000 ? std::to_string(milliseconds) + " ms"
                               : std::to_string(milliseconds / 1'000) + " s";
}

// The last index of the ranks that are in a row from `first` on.
std::size_t row_end(std::span<const int> ranks, std::size_t first) {
  while (first + 1 < ranks.size() && ranks[first + 1] == ranks[first] + 1) ++first;
  return first;
}

// In the order of their first ranks.
std::string describe(std::span<const RankCall> calls) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // few
  for (const RankCall& call : calls) {
    const auto group = std::ranges::find(groups, call.text, &decltype(groups)::value_type::first);
    if (group != groups.end()) {
      group->second.push_back(call.rank);
    } else {
      groups.push_back({call.text, {call.rank}});
    }
  }
  std::string text;
  for (const auto& [what, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + describe_ranks(ranks) + ": " + what;
  }
  return text;
}

}  // namespace

std::string ranges_of(std::span<const int> ranks) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    last = row_end(ranks, first);
    text += (first > 0 ? "," : "") + std::to_string(ranks[first]);
    if (last > first) text += '-' + std::to_string(ranks[last]);
  }
  return text;
}

std::string describe_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    last = row_end(ranks, first);
    if (last < first + 2) last = first;  // two in a row are no range
    if (first > 0) text += last + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text += " to " + std::to_string(ranks[last]);
  }
  return text;
}

std::string describe(const Operation& operation, int peer) {
  std::string text = to_string(operation.signature);
  if (peer >= 0) {
    text += operation.signature.kind == OperationKind::kSend ? " to rank " : " from rank ";
    text += std::to_string(peer);
  }
  if (operation.label != nullptr) text += std::string(" of tensor ") + operation.label;
  return text;
}

Failure mismatch(const Operation& operation, int blamed, std::span<const RankCall> calls) {
  return {.is_mismatch = true,
          .peer = blamed,
          .operation = to_string(operation.signature),
          .tensor = operation.label != nullptr ? operation.label : "",
          .what = "the ranks' calls do not fit together: " + describe(calls) +
                  "; all ranks of a communicator call the same operations in the same order, until "
                  "they end it"};
}

Failure late_operation(const Operation& operation, int peer, std::span<const int> missing,
                       Duration deadline) {
  std::string what =
      "rank " + std::to_string(operation.rank) + " called " + describe(operation, peer);
  what += missing.empty() ? ", which takes" : ", and waits for " + describe_ranks(missing);
  what += " longer than the deadline of " + in_words(deadline) +
          "; see where the ranks are, or raise OpenOptions::deadline";
  return {.peer = missing.empty() ? -1 : missing.front(),
          .operation = to_string(operation.signature),
          .tensor = operation.label != nullptr ? operation.label : "",
          .what = std::move(what)};
}

}  // namespace leat::comm
