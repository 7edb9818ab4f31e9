#include "leat/csp/selector.h"

#include <stdexcept>
#include <string>

namespace leat {

std::size_t Selector::add_erased(std::shared_ptr<Entry> entry) {
  if (entries_.size() == kMostCases) {
    throw std::length_error("leat: a Selector has at most " + std::to_string(kMostCases) +
                            " cases");
  }
  // Here, so that selecting does not allocate; doubled, as a vector does by itself.
  if (cases_.capacity() == entries_.size()) cases_.reserve(2 * entries_.size() + 8);
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

std::optional<std::size_t> Selector::select_by(Deadline deadline) {
  // Empty between selects, so that no case of an earlier one keeps its channel.
  cases_.clear();
  cases_.resize(entries_.size());
  int outcome = 0;
  try {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i] != nullptr) entries_[i]->describe(cases_[i], deadline);
    }
    outcome = select_cases(cases_, deadline);
  } catch (...) {
    cases_.clear();
    throw;
  }
  if (outcome < 0) {
    cases_.clear();
    return std::nullopt;
  }
  const auto index = static_cast<std::size_t>(outcome);
  const bool closed = cases_[index].closed;
  ChannelCore* const channel = cases_[index].channel;
  cases_.clear();
  // A copy of what act() looks at: its handler may begin another select.
  Case chosen;
  chosen.closed = closed;
  chosen.channel = channel;
  const std::shared_ptr<Entry> entry = entries_[index];  // which its handler may replace
  if (entry->once()) entries_[index].reset();
  entry->act(chosen);
  return index;
}

}  // namespace leat
