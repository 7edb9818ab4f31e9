#include "leat/comm/transports/blame.h"

#include <algorithm>
#include <utility>

#include "leat/comm/transports/rank_calls.h"

namespace leat::comm {

void Answer::add(const Answer& other) {
  waits = waits || other.waits;
  whom.insert(whom.end(), other.whom.begin(), other.whom.end());
}

void Inquiry::answer(std::size_t question, Answer answer) {
  {
    const SpinLockGuard guard(lock_);
    answers_[question] = std::move(answer);
    if (--open_ > 0) return;
  }
  all_here_.notify();
}

std::vector<std::optional<Answer>> Inquiry::wait_until(TimePoint until) {
  static_cast<void>(all_here_.wait_until(until));
  const SpinLockGuard guard(lock_);
  return answers_;
}

Verdict find_blame(
    std::span<const Wait> missing,
    const std::function<std::vector<std::optional<Answer>>(std::span<const Wait>)>& ask) {
  std::vector<Wait> found;        // by their distance
  std::vector<std::size_t> from;  // the place in `found` of the wait that led to each; or its own
  const auto add = [&](const Wait& one, std::size_t led) {
    if (std::ranges::find(found, one) != found.end()) return;
    from.push_back(std::min(led, found.size()));
    found.push_back(one);
  };
  const auto blame = [&](std::size_t at, const char* why) {
    std::vector<std::size_t> chain = {at};
    while (from[chain.back()] != chain.back()) chain.push_back(from[chain.back()]);
    Verdict verdict{found[at].rank, "; rank " + std::to_string(found[chain.back()].rank)};
    for (std::size_t i = chain.size() - 1; i-- > 0;) {
      verdict.text += i + 2 == chain.size() ? " waits for rank " : ", which waits for rank ";
      verdict.text += std::to_string(found[chain[i]].rank);
    }
    if (chain.size() > 1) verdict.text += ", which";
    verdict.text += why;
    return verdict;
  };
  for (const Wait& one : missing) add(one, found.size());
  std::optional<std::size_t> idle;
  for (std::size_t begin = 0; begin < found.size();) {
    const std::vector<std::optional<Answer>> answers = ask(std::span(found).subspan(begin));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) return blame(begin + i, " does not answer: it is stopped or dead");
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]->waits && !idle) idle = begin + i;
      for (const Wait& one : answers[i]->whom) add(one, begin + i);
    }
    begin += answers.size();
  }
  if (idle) return blame(*idle, " lives, and has not called");
  std::vector<int> ranks;
  ranks.reserve(found.size());
  for (const Wait& one : found) ranks.push_back(one.rank);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return {};
  return {.text =
              "; " + describe_ranks(ranks) + (ranks.size() == 1 ? " waits, too" : " wait, too")};
}

}  // namespace leat::comm
