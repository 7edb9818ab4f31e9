#include "leat/comm/report/join.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "leat/comm/transports/rank_calls.h"

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
  return (ranks.size() == 1 ? "rank " : "ranks ") + leat::comm::ranges_of(ranks);
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
};

// The sends and the recvs of one sender, receiver and key that have not ended, in order.
struct Messages {
  std::vector<const Entry*> sends;
  std::vector<const Entry*> recvs;
};

// What all files say of one communicator.
struct Communicator {
  std::uint64_t context = 0;
  std::vector<int> members;
  std::map<int, Rank> ranks;              // of all members
  std::map<std::uint64_t, bool> numbers;  // whether it ended on a rank: then all have called it
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
    for (const Communicator& one : communicators_) tell(one);
    return std::move(report_);
  }

 private:
  void say(const std::string& line) { report_.text += line + '\n'; }

  // Sets what is joined: by_rank_, communicators_.
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
    for (const auto& [rank, record] : by_rank_) {
      for (const Membership& one : record->memberships) {
        Communicator& of = communicator(one.context);
        of.members = one.members;
        of.ranks[rank].has_left |= one.has_left;
      }
    }
    for (const auto& [rank, record] : by_rank_) {
      for (const Entry& one : record->entries) {
        Communicator& of = communicator(one.context);
        // In a file without its communicators.
        if (std::ranges::find(of.members, rank) == of.members.end()) of.members.push_back(rank);
        if (one.is_send || one.is_recv) continue;
        of.ranks[rank].collectives[one.number] = &one;
        of.numbers[one.number] |= one.state == Entry::State::kEnded;
      }
    }
    for (Communicator& of : communicators_) {
      for (const int rank : of.members) {
        const auto found = by_rank_.find(rank);
        of.ranks[rank].record = found == by_rank_.end() ? nullptr : found->second;
      }
    }
  }

  Communicator& communicator(std::uint64_t context) {
    const auto [place, is_new] = places_.try_emplace(context, communicators_.size());
    if (is_new) communicators_.push_back({.context = context});
    return communicators_[place->second];
  }

  void tell_failures() {
    std::map<std::string, std::vector<int>> ranks;
    for (const auto& [rank, record] : by_rank_) {
      if (!record->failure.empty()) ranks[record->failure].push_back(rank);
    }
    for (const auto& [what, of] : ranks) say(list(of) + " failed: " + what);
    report_.is_open |= !ranks.empty();
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

  void tell(const Communicator& of) {
    std::vector<std::uint64_t> unfinished;
    for (const auto& [number, is_called_by_all] : of.numbers) {
      const auto is_unfinished = [&, number = number, by_all = is_called_by_all](const auto& one) {
        return place_of(one.second, number, by_all) <= Place::kHasLeft;
      };
      if (std::ranges::any_of(of.ranks, is_unfinished)) unfinished.push_back(number);
    }
    std::string head =
        "communicator " + std::to_string(of.context) + " of " + list(of.members) + ": ";
    if (of.numbers.empty()) {
      head += "no collective";
    } else if (!unfinished.empty() && unfinished[0] == 0) {
      head += "number 0 has not ended on all";
    } else {
      head += "all ended up to number " +
              std::to_string(unfinished.empty() ? of.numbers.rbegin()->first : unfinished[0] - 1);
    }
    say(head);
    for (std::size_t i = 0; i < std::min(unfinished.size(), kMostNumbers); ++i) {
      tell_number(of, unfinished[i]);
    }
    if (unfinished.size() > kMostNumbers) {
      say("  and " + std::to_string(unfinished.size() - kMostNumbers) + " later ones");
    }
    report_.is_open |= !unfinished.empty();
    tell_messages(of);
  }

  void tell_number(const Communicator& of, std::uint64_t number) {
    std::map<Place, std::vector<int>> places;
    std::map<std::pair<std::string, std::string>, std::vector<int>> calls;  // by what and tag
    for (const auto& [rank, one] : of.ranks) {
      places[place_of(one, number, of.numbers.at(number))].push_back(rank);
      const auto found = one.collectives.find(number);
      if (found == one.collectives.end()) continue;
      calls[{found->second->what, found->second->tag}].push_back(rank);
    }
    const auto call_of = [&](int rank) {
      return describe(*of.ranks.at(rank).collectives.at(number));
    };
    const bool differ = calls.size() > 1;
    say("  number " + std::to_string(number) + ": " +
        (differ ? "the ranks called different things" : call_of(calls.begin()->second[0])));
    for (const auto& [call, ranks] : calls) {
      if (!differ) break;
      say("    " + list(ranks) + ": " + call_of(ranks[0]) +
          (call.second.empty() ? "" : " (tag " + call.second + ')'));
    }
    for (const auto& [place, ranks] : places) {
      say("    " + std::string(kPlaceNames[static_cast<std::size_t>(place)]) + ' ' + list(ranks));
    }
  }

  void tell_messages(const Communicator& of) {
    std::map<std::tuple<int, int, std::uint64_t>, Messages> all;  // by sender, receiver, key
    for (const auto& [rank, one] : of.ranks) {
      if (one.record == nullptr) continue;
      for (const Entry& entry : one.record->entries) {
        if (entry.context != of.context || entry.state == Entry::State::kEnded) continue;
        const auto at = static_cast<std::size_t>(entry.peer);
        const int peer = at < of.members.size() ? of.members[at] : -1;
        if (entry.is_send) all[{rank, peer, entry.number}].sends.push_back(&entry);
        if (entry.is_recv) all[{peer, rank, entry.number}].recvs.push_back(&entry);
      }
    }
    for (const auto& [key, messages] : all) {
      report_.is_open = true;
      const auto& [from, to, number] = key;
      const std::string head =
          "  key " + std::to_string(number) + ", from " + name(from) + " to " + name(to) + ": ";
      const auto& [sends, recvs] = messages;
      const std::size_t both = std::min(sends.size(), recvs.size());
      for (std::size_t i = 0; i < both; ++i) {
        const bool has_failed = sends[i]->state == Entry::State::kFailed;
        say(head + describe(*sends[i]) + ", and " + describe(*recvs[i]) + ": both called, " +
            (has_failed ? "failed" : "not ended"));
      }
      const bool lacks_recvs = sends.size() > both;
      const auto& alone = lacks_recvs ? sends : recvs;
      const int other = lacks_recvs ? to : from;
      const std::string lacks = lacks_recvs ? "recv of this key" : "send of this key";
      for (std::size_t i = both; i < alone.size(); ++i) {
        const bool has_failed = alone[i]->state == Entry::State::kFailed;
        say(head + describe(*alone[i]) + (has_failed ? ": failed; " : ": waiting; ") + name(other) +
            (by_rank_.contains(other) ? " has no " + lacks + " open"
                                      : " has no file to tell of a " + lacks));
      }
    }
  }

  const std::vector<Record> records_;
  int size_ = 0;
  bool left_out_ = false;
  std::map<int, const Record*> by_rank_;
  std::vector<Communicator> communicators_;      // as the first ranks opened them
  std::map<std::uint64_t, std::size_t> places_;  // in communicators_, by context
  Report report_;
};

}  // namespace

Report join(std::vector<Record> records) { return Join(std::move(records)).run(); }

}  // namespace comm_report
