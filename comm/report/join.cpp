#include "leat/comm/report/join.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace comm_report {
namespace {

constexpr std::size_t kMostNumbers = 10;  // that are listed of one communicator

// Where a rank is, for a collective. Up to kHasLeft: the collective has not ended for it.
enum class Place : std::uint8_t {
  kWaiting,
  kFailed,
  kNotCalled,
  kHasLeft,
  kNoFile,
  kCutOff,
  kBehind,
  kEnded,
  kForgotten
};
constexpr std::array<const char*, 9> kPlaceNames = {
    "waiting:",
    "failed:",
    "not called:",
    "not called, has left:",
    "no file:",
    "not in what is left of the file:",
    "called since its file was written:",
    "ended:",
    "called, but no longer among its last operations:",
};

std::string list(const std::vector<int>& ranks) {  // "rank 3", "ranks 0-2,5"
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += (first > 0 ? "," : "") + std::to_string(ranks[first]);
    if (last > first) out += '-' + std::to_string(ranks[last]);
  }
  return out;
}

std::string describe(const Entry& one) {
  return one.what + (one.label.empty() ? "" : ", tensor " + one.label);
}

std::string name(int rank) {
  return rank < 0 ? "a rank that no file names" : "rank " + std::to_string(rank);
}

// What one rank's file says of one communicator.
struct Rank {
  const Record* record = nullptr;  // null: no file
  bool has_left = false;
  std::map<std::uint64_t, const Entry*> collectives;
  std::vector<const Entry*> messages;  // those that have not ended
};

class Join {
 public:
  explicit Join(std::vector<Record> records) : records_(std::move(records)) {}

  Report run() {
    choose();
    if (by_rank_.empty()) return {};
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!by_rank_.contains(rank)) missing.push_back(rank);
    }
    say(std::to_string(by_rank_.size()) + " of " + std::to_string(size_) + " ranks have a file");
    if (!missing.empty()) {
      say(list(missing) + ": no file; killed, or it wrote to another directory");
    }
    report_.is_complete = missing.empty() && !left_out_;
    for (const auto& [rank, record] : by_rank_) report_.is_complete &= record->is_whole;
    tell_failures();
    for (const std::uint64_t context : contexts_) tell_communicator(context);
    return std::move(report_);
  }

 private:
  void say(const std::string& line) { report_.text += line + '\n'; }

  // Sets what is joined: by_rank_, contexts_, members_.
  void choose() {
    for (const Record& one : records_) {
      const Record& first = records_.front();
      const auto [place, is_new] = one.size == first.size ? by_rank_.emplace(one.rank, &one)
                                                          : std::pair(by_rank_.end(), false);
      if (is_new) continue;
      left_out_ = true;
      say("warning: " + one.file + " is left out: " +
          (one.size != first.size
               ? "it is of a run of " + std::to_string(one.size) + " ranks, and " + first.file +
                     " of one of " + std::to_string(first.size)
               : "rank " + std::to_string(one.rank) + " has another file, " + place->second->file));
    }
    size_ = records_.empty() ? 0 : records_.front().size;
    const auto add = [&](std::uint64_t context) {
      if (members_.try_emplace(context).second) contexts_.push_back(context);
    };
    for (const auto& [rank, record] : by_rank_) {
      for (const Membership& one : record->memberships) {
        add(one.context);
        members_[one.context] = one.members;
      }
    }
    for (const auto& [rank, record] : by_rank_) {
      for (const Entry& one : record->entries) {
        add(one.context);
        std::vector<int>& of = members_[one.context];  // in a file without its communicators
        if (std::ranges::find(of, rank) == of.end()) of.push_back(rank);
      }
    }
  }

  void tell_failures() {
    std::map<std::string, std::vector<int>> ranks;
    for (const auto& [rank, record] : by_rank_) {
      if (!record->failure.empty()) ranks[record->failure].push_back(rank);
    }
    for (const auto& [what, of] : ranks) say(list(of) + " failed: " + what);
    report_.is_open |= !ranks.empty();
  }

  Rank rank_in(std::uint64_t context, int rank) const {
    const auto found = by_rank_.find(rank);
    if (found == by_rank_.end()) return {};
    Rank one{.record = found->second};
    for (const Membership& each : one.record->memberships) {
      one.has_left |= each.context == context && each.has_left;
    }
    for (const Entry& each : one.record->entries) {
      if (each.context != context) continue;
      if (!each.is_send && !each.is_recv) {
        one.collectives[each.number] = &each;
      } else if (each.state != Entry::State::kEnded) {
        one.messages.push_back(&each);
      }
    }
    return one;
  }

  static Place place_of(const Rank& rank, std::uint64_t number, bool is_called_by_all) {
    if (rank.record == nullptr) return Place::kNoFile;
    const auto found = rank.collectives.find(number);
    if (found != rank.collectives.end()) {
      const Entry::State state = found->second->state;
      return state == Entry::State::kOpen     ? Place::kWaiting
             : state == Entry::State::kFailed ? Place::kFailed
                                              : Place::kEnded;
    }
    // Collectives are called in the order of their numbers; the oldest ones are forgotten first.
    const bool has_forgotten = !rank.record->entries.empty() && rank.record->entries[0].entry > 1;
    const bool is_older = rank.collectives.empty() || number < rank.collectives.begin()->first;
    if (has_forgotten && is_older && (is_called_by_all || !rank.collectives.empty())) {
      return Place::kForgotten;
    }
    if (!rank.record->is_whole) return Place::kCutOff;
    if (is_called_by_all) return Place::kBehind;
    return rank.has_left ? Place::kHasLeft : Place::kNotCalled;
  }

  void tell_communicator(std::uint64_t context) {
    const std::vector<int>& members = members_[context];
    std::map<int, Rank> ranks;
    std::set<std::uint64_t> numbers;
    for (const int rank : members) {
      const Rank& one = ranks[rank] = rank_in(context, rank);
      for (const auto& [number, entry] : one.collectives) numbers.insert(number);
    }
    std::vector<std::uint64_t> unfinished;
    for (const std::uint64_t number : numbers) {
      const bool by_all = is_called_by_all(ranks, number);
      const auto is_unfinished = [&](const auto& one) {
        return place_of(one.second, number, by_all) <= Place::kHasLeft;
      };
      if (std::ranges::any_of(ranks, is_unfinished)) unfinished.push_back(number);
    }
    std::string head = "communicator " + std::to_string(context) + " of " + list(members) + ": ";
    if (numbers.empty()) {
      head += "no collective";
    } else if (unfinished.empty()) {
      head += "all ended up to number " + std::to_string(*numbers.rbegin());
    } else if (unfinished.front() == 0) {
      head += "number 0 has not ended on all";
    } else {
      head += "all ended up to number " + std::to_string(unfinished.front() - 1);
    }
    say(head);
    for (std::size_t i = 0; i < std::min(unfinished.size(), kMostNumbers); ++i) {
      tell_number(ranks, unfinished[i]);
    }
    if (unfinished.size() > kMostNumbers) {
      say("  and " + std::to_string(unfinished.size() - kMostNumbers) + " later ones");
    }
    report_.is_open |= !unfinished.empty();
    tell_messages(members, ranks);
  }

  // None ends before all have called it.
  static bool is_called_by_all(const std::map<int, Rank>& ranks, std::uint64_t number) {
    return std::ranges::any_of(ranks, [&](const auto& one) {
      const auto found = one.second.collectives.find(number);
      return found != one.second.collectives.end() && found->second->state == Entry::State::kEnded;
    });
  }

  void tell_number(const std::map<int, Rank>& ranks, std::uint64_t number) {
    std::map<Place, std::vector<int>> places;
    std::map<std::pair<std::string, std::string>, std::vector<int>> calls;  // by what and tag
    std::string what;
    const bool by_all = is_called_by_all(ranks, number);
    for (const auto& [rank, one] : ranks) {
      places[place_of(one, number, by_all)].push_back(rank);
      const auto found = one.collectives.find(number);
      if (found == one.collectives.end()) continue;
      const Entry& entry = *found->second;
      if (what.empty()) what = describe(entry);
      calls[{entry.what, entry.tag}].push_back(rank);
    }
    say("  number " + std::to_string(number) + ": " +
        (calls.size() == 1 ? what : "the ranks called different things"));
    for (const auto& [call, of] : calls) {
      if (calls.size() == 1) break;
      say("    " + list(of) + ": " + describe(*ranks.at(of[0]).collectives.at(number)) +
          (call.second.empty() ? "" : " (tag " + call.second + ')'));
    }
    for (const auto& [place, of] : places) {
      say("    " + std::string(kPlaceNames[static_cast<std::size_t>(place)]) + ' ' + list(of));
    }
  }

  void tell_messages(const std::vector<int>& members, const std::map<int, Rank>& ranks) {
    // By sender, receiver and key: the sends and the recvs that have not ended, in order.
    std::map<std::tuple<int, int, std::uint64_t>, std::array<std::vector<const Entry*>, 2>> all;
    for (const auto& [rank, one] : ranks) {
      for (const Entry* const entry : one.messages) {
        const auto at = static_cast<std::size_t>(entry->peer);
        const int peer = at < members.size() ? members[at] : -1;
        const auto key = entry->is_send ? std::tuple(rank, peer, entry->number)
                                        : std::tuple(peer, rank, entry->number);
        all[key][entry->is_send ? 0 : 1].push_back(entry);
      }
    }
    for (const auto& [key, sides] : all) {
      report_.is_open = true;
      const auto& [from, to, number] = key;
      const std::string head =
          "  key " + std::to_string(number) + ", from " + name(from) + " to " + name(to) + ": ";
      for (std::size_t i = 0; i < std::max(sides[0].size(), sides[1].size()); ++i) {
        const Entry* const send = i < sides[0].size() ? sides[0][i] : nullptr;
        const Entry* const recv = i < sides[1].size() ? sides[1][i] : nullptr;
        const int other = send == nullptr ? from : to;
        if (send == nullptr && recv == nullptr) break;
        const Entry& one = send != nullptr ? *send : *recv;
        const bool has_failed = one.state == Entry::State::kFailed;
        std::string line = head + describe(one);
        if (send != nullptr && recv != nullptr) {
          line += ", and " + describe(*recv) + ": both called, ";
          line += has_failed ? "failed" : "not ended";
        } else {
          line += has_failed ? ": failed; " : ": waiting; ";
          line += name(other);
          line += by_rank_.contains(other) ? " has no " : " has no file to tell of a ";
          line += std::string(send != nullptr ? "recv" : "send") + " of this key";
          line += by_rank_.contains(other) ? " open" : "";
        }
        say(line);
      }
    }
  }

  const std::vector<Record> records_;
  int size_ = 0;
  bool left_out_ = false;
  std::map<int, const Record*> by_rank_;
  std::vector<std::uint64_t> contexts_;  // as the first ranks opened them
  std::map<std::uint64_t, std::vector<int>> members_;
  Report report_;
};

}  // namespace

Report join(std::vector<Record> records) { return Join(std::move(records)).run(); }

}  // namespace comm_report
