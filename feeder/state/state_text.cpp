// A state as one line of JSON, and back.
//
// A state has exactly one text: parse() writes the state that it has read as text again, and
// compares. So it refuses spaces, keys in another order, duplicate and unknown keys, and unsorted
// intervals. parse() needs memory and time in proportion to the length of the text.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/state.h"

namespace leat::feeder {
namespace {

using nlohmann::json;

constexpr std::string_view kStateHead = R"({"leat_state":2,)";
constexpr std::string_view kStateSum = R"(,"sum":")";

std::string to_json(const IntervalSet& set) {
  std::string list = "[";
  for (const Interval& one : set.intervals()) {
    if (list.size() > 1) list += ',';
    list += '[' + std::to_string(one.first) + ',' + std::to_string(one.end) + ']';
  }
  return list + ']';
}

std::string to_json(const EpochReleases& one) {
  std::string text = R"({"epoch":)" + std::to_string(one.epoch);
  text += R"(,"batches":)" + to_json(one.batches) + R"(,"positions":)" + to_json(one.positions);
  if (!one.before.empty()) text += R"(,"before":)" + to_json(one.before);
  if (one.carry.has_value()) {
    text += R"(,"carry":[)" + std::to_string(one.carry->element) + ',' +
            std::to_string(one.carry->position) + ',' + std::to_string(one.carry->offset) + ']';
  }
  return text + '}';
}

// Returns the end of a text: the 32-bit FNV-1a of everything before it.
std::string sum_of(std::string_view body) {
  std::uint32_t sum = 2166136261U;
  for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  std::array<char, 9> hex{};
  std::snprintf(hex.data(), hex.size(), "%08x", sum);
  return std::string(kStateSum) + hex.data() + "\"}";
}

// Returns the beginning of a text, with control characters replaced, for an error message.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string some(text.substr(0, kMost));
  std::ranges::replace_if(
      some, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kMost ? some + "..." : some;
}

[[noreturn]] void refuse_state(const std::string& where, const std::string& why) {
  throw Error("leat: this is no state of a prefetcher: at " + where + ", " + why +
              "; give the whole text that state() returned");
}

[[noreturn]] void refuse_state(std::size_t byte, const std::string& why) {
  refuse_state("byte " + std::to_string(byte), why);
}

// Throws if the text is that of a state of another version.
void check_version(std::string_view text) {
  if (text.starts_with("leat-state/1 ")) {
    refuse_state(0,
                 "it begins with \"leat-state/1\": a Leat before 0.1.0 wrote it, and states are "
                 "JSON since; go on with the Leat that wrote it, or begin an epoch anew");
  }
  constexpr std::string_view kVersion = R"({"leat_state":)";
  if (!text.starts_with(kVersion) || text.starts_with(kStateHead)) return;
  const std::string_view rest = text.substr(kVersion.size());
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  if (digits.empty() || digits == "2" || digits.size() == rest.size()) return;
  throw Error("leat: this state has version " + shown(digits) +
              " of the format, and this Leat reads version 2: another Leat, most likely " +
              (digits == "0" || digits == "1" ? "an older" : "a newer") +
              " one, wrote it; resume with that Leat");
}

// A value of the JSON and its place, as a JSON pointer: "/epochs/0/batches".
class StateValue {
 public:
  StateValue(const json& value, std::string place) : value_(value), place_(std::move(place)) {}

  [[nodiscard]] bool has(const char* name) const { return value_.contains(name); }
  [[nodiscard]] StateValue member(const char* name) const {
    if (!value_.is_object()) fail(show() + " is no object");
    const auto found = value_.find(name);
    if (found == value_.end()) fail("expected \"" + std::string(name) + "\"");
    return {*found, place_ + "/" + name};
  }
  [[nodiscard]] std::vector<StateValue> members(const char* name) const {
    const StateValue list = array(name);
    std::vector<StateValue> all;
    for (const json& one : list.value_) {
      all.emplace_back(one, list.place_ + "/" + std::to_string(all.size()));
    }
    return all;
  }
  [[nodiscard]] std::uint64_t number(const char* name) const {
    const StateValue one = member(name);
    if (!one.value_.is_number_unsigned()) one.fail(one.show() + " is no whole number of 64 bits");
    return one.value_.get<std::uint64_t>();
  }
  template <class Enum>
  [[nodiscard]] Enum one_of(const char* name, std::initializer_list<Enum> all) const {
    const StateValue one = member(name);
    for (const Enum value : all) {
      if (one.value_ == to_string(value)) return value;
    }
    one.fail(one.show() + " is no " + name);
  }
  [[nodiscard]] IntervalSet intervals(const char* name) const {
    const StateValue list = array(name);
    std::vector<Interval> all;
    all.reserve(list.value_.size());
    for (const json& one : list.value_) {
      if (!has_numbers(one, 2) || one[0].get<std::uint64_t>() >= one[1].get<std::uint64_t>()) {
        StateValue(one, list.place_ + "/" + std::to_string(all.size()))
            .fail(StateValue(one, "").show() + " is no interval [first,end]");
      }
      all.push_back({.first = one[0].get<std::uint64_t>(), .end = one[1].get<std::uint64_t>()});
    }
    return IntervalSet(std::move(all));
  }
  [[nodiscard]] Carry carry(const char* name) const {
    const StateValue one = member(name);
    if (!has_numbers(one.value_, 3)) {
      one.fail(one.show() + " is no carry [element,position,offset]");
    }
    return {.element = one.value_[0].get<std::uint64_t>(),
            .position = one.value_[1].get<std::uint64_t>(),
            .offset = one.value_[2].get<std::uint64_t>()};
  }
  [[noreturn]] void fail(const std::string& why) const {
    refuse_state(place_.empty() ? "the top" : place_, why);
  }

 private:
  [[nodiscard]] StateValue array(const char* name) const {
    StateValue list = member(name);
    if (!list.value_.is_array()) list.fail(list.show() + " is no array");
    return list;
  }
  [[nodiscard]] static bool has_numbers(const json& list, std::size_t count) {
    return list.is_array() && list.size() == count &&
           std::ranges::all_of(list, [](const json& one) { return one.is_number_unsigned(); });
  }
  // Returns a short text. Calls dump() for flat values only, because it recurses into every level.
  [[nodiscard]] std::string show() const {
    if (!value_.is_structured()) return shown(value_.dump());
    const bool is_flat = std::ranges::none_of(value_, &json::is_structured);
    return is_flat && value_.size() <= 4 ? shown(value_.dump()) : value_.type_name();
  }

  const json& value_;
  std::string place_;
};

std::uint64_t end_of(const IntervalSet& set) {
  return set.empty() ? 0 : set.intervals().back().end;
}

json parse_json(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    refuse_state(error.byte - std::min<std::size_t>(error.byte, 1), "it is no JSON");
  } catch (const json::exception&) {  // a number that exceeds even a double
    refuse_state("some byte", "a number is no whole number of 64 bits");
  }
}

EpochReleases parse_epoch(const StateValue& value, const State& state, const BatchPlan& plan) {
  EpochReleases one{.epoch = value.number("epoch"),
                    .batches = value.intervals("batches"),
                    .positions = value.intervals("positions")};
  const std::string name = "epoch " + std::to_string(one.epoch);
  if (one.epoch > kLastEpoch) value.fail("there is no " + name);
  if (!state.epochs.empty() && one.epoch <= state.epochs.back().epoch) {
    value.fail(name + " follows " + std::to_string(state.epochs.back().epoch));
  }
  if (value.has("before")) one.before = value.intervals("before");
  if (value.has("carry")) {
    one.carry = value.carry("carry");
    if (state.elements == 0 || one.carry->element > state.elements ||
        one.carry->position > state.samples) {
      value.fail(name + " does not have that carry");
    }
  }
  const std::uint64_t positions = plan.end_of_positions();
  if (end_of(one.batches) > plan.batches() || end_of(one.positions) > positions ||
      end_of(one.before) > positions) {
    value.fail("there is something that " + name + " does not have");
  }
  return one;
}

}  // namespace

std::string State::text() const {
  std::string text(kStateHead);
  const auto add = [&text](std::string_view name, const std::string& value) {
    if (text.size() > kStateHead.size()) text += ',';
    text.append("\"").append(name).append("\":").append(value);
  };
  const auto quoted = [](std::string_view word) { return '"' + std::string(word) + '"'; };
  add("samples", std::to_string(samples));
  if (dataset != 0) add("dataset", std::to_string(dataset));
  if (elements > 0) add("elements", std::to_string(elements));
  add("batch_size", std::to_string(batch_size));
  add("seed", std::to_string(seed));
  add("order", quoted(to_string(order)));
  add("last_batch", quoted(to_string(last_batch)));
  add("rank", std::to_string(rank));
  add("ranks", std::to_string(ranks));
  add("world_size", std::to_string(world_size));
  std::string list;
  for (const EpochReleases& one : epochs) list += (list.empty() ? "[" : ",") + to_json(one);
  add("epochs", list.empty() ? "[]" : list + ']');
  return text + sum_of(text);
}

State State::parse(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty()) refuse_state(0, "it is empty, as of a checkpoint that was not written");
  check_version(text);
  if (!text.starts_with(kStateHead)) {
    refuse_state(0, "it begins with " + shown(text.substr(0, kStateHead.size())) + ", not " +
                        std::string(kStateHead));
  }
  const std::size_t end = text.rfind(kStateSum);
  if (end == std::string_view::npos) {
    refuse_state(text.size(), "it is cut off: there is no sum");
  }
  if (const std::string sum = sum_of(text.substr(0, end)); text.substr(end) != sum) {
    refuse_state(end, "it ends with " + shown(text.substr(end)) +
                          ", but the sum of the text before is " + sum);
  }

  const json parsed = parse_json(text);
  const StateValue all(parsed, "");
  State state;
  state.samples = all.number("samples");
  if (all.has("dataset")) state.dataset = all.number("dataset");
  if (all.has("elements")) state.elements = all.number("elements");
  state.batch_size = all.number("batch_size");
  state.seed = all.number("seed");
  state.order = all.one_of("order", {Order::kSequential, Order::kShuffled, Order::kDrawn});
  state.last_batch = all.one_of(
      "last_batch", {LastBatch::kPartial, LastBatch::kDrop, LastBatch::kPad, LastBatch::kWrap});
  state.rank = all.number("rank");
  state.ranks = all.number("ranks");
  state.world_size = all.number("world_size");
  if (state.batch_size == 0 || state.world_size > kMostRanks || state.ranks == 0 ||
      state.rank >= state.world_size || state.ranks > state.world_size - state.rank) {
    all.fail("the ranks or batch_size make no sense");
  }
  const BatchPlan plan = state.plan();
  for (const StateValue& epoch : all.members("epochs")) {
    state.epochs.push_back(parse_epoch(epoch, state, plan));
  }

  const std::string written = state.text();
  const auto differs = std::ranges::mismatch(text, written).in1;
  if (written != text) {
    refuse_state(static_cast<std::size_t>(differs - text.begin()),
                 "it is not written as state() writes it");
  }
  return state;
}

}  // namespace leat::feeder
