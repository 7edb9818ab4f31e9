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

// Rows of at least `least` ranks as "0<to>2", with `between` before all others but the last, and
// `last` before that.
std::string in_rows(std::span<const int> ranks, std::size_t least, const char* to,
                    const char* between, const char* last) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < ranks.size(); i = end) {
    end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end < i + least) end = i + 1;
    if (i > 0) text += end == ranks.size() ? last : between;
    text += std::to_string(ranks[i]);
    if (end > i + 1) text += to + std::to_string(ranks[end - 1]);
  }
  return text;
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

std::string ranges_of(std::span<const int> ranks) { return in_rows(ranks, 2, "-", ",", ","); }

std::string describe_ranks(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + in_rows(ranks, 3, " to ", ", ", " and ");
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
  what += " longer than the deadline of " + in_words(deadline);
  return {.operation = to_string(operation.signature),
          .tensor = operation.label != nullptr ? operation.label : "",
          .what = std::move(what)};
}

}  // namespace leat::comm
