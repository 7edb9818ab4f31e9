#include "leat/comm/transports/rank_calls.h"

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

}  // namespace

std::string describe_ranks(std::span<const int> ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last < i + 2) last = i;  // two in a row are no range
    parts.push_back(std::to_string(ranks[i]));
    if (last > i) parts.back() += " to " + std::to_string(ranks[last]);
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string describe(std::span<const RankCall> calls) {
  std::vector<std::pair<const std::string*, std::vector<int>>> groups;  // few
  for (const RankCall& call : calls) {
    auto group = groups.begin();
    while (group != groups.end() && *group->first != call.text) ++group;
    if (group == groups.end()) group = groups.insert(group, {&call.text, {}});
    group->second.push_back(call.rank);
  }
  std::string text;
  for (const auto& [what, ranks] : groups) {
    if (!text.empty()) text += "; ";
    text += describe_ranks(ranks) + ": " + *what;
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
