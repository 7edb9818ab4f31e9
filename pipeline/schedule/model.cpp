#include "leat/pipeline/schedule/model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "leat/pipeline/schedule.h"
#include "leat/pipeline/text.h"
#include "leat/pipeline/text/in_quotes.h"

namespace schedule_program {
namespace {

using leat::pipeline::CostModel;
using leat::pipeline::Finding;
using leat::pipeline::in_quotes;
using leat::pipeline::kMostFindings;
using leat::pipeline::StageCost;

struct Key {
  const char* name;
  std::int64_t StageCost::*of_stage;  // nullptr: of the whole model
};
constexpr std::array<Key, 6> kKeys = {{{"forward", &StageCost::forward},
                                       {"backward_input", &StageCost::backward_input},
                                       {"backward_weight", &StageCost::backward_weight},
                                       {"activation_bytes", &StageCost::activation_bytes},
                                       {"link", nullptr},
                                       {"capacity", nullptr}}};

// Thrown at the first character that cannot be, with the finding already noted.
struct NoJson {};

// Reads an object whose values are numbers or lists of numbers, which is all that a model has. So
// each finding has its row and column.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  CostModel read() {
    try {
      read_object();
    } catch (const NoJson&) {  // the findings say where
    }
    return std::move(model_);
  }
  std::vector<Finding>& findings() { return findings_; }

 private:
  void find(std::size_t at, const std::string& reason) {
    if (findings_.size() == kMostFindings) return;
    const std::string_view before = text_.substr(0, at);
    const std::size_t line = before.rfind('\n');
    findings_.push_back(
        {.row = std::count(before.begin(), before.end(), '\n'),
         .column = static_cast<std::int64_t>(line == std::string_view::npos ? at : at - line - 1),
         .reason = reason});
  }
  // The next character that is no blank; '\0' at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char one) {
    if (peek() == one && at_ < text_.size()) {
      ++at_;
      return;
    }
    find(at_, std::string(at_ < text_.size() ? "here" : "the text ends, and") + " has to be a '" +
                  one + "'");
    throw NoJson();
  }
  // Calls one() for each element up to `end`.
  template <class One>
  void read_list(char begin, char end, const One& one) {
    expect(begin);
    if (peek() == end) {
      ++at_;
      return;
    }
    for (;;) {
      one();
      if (peek() != ',') break;
      ++at_;
    }
    expect(end);
  }

  void read_object() {
    read_list('{', '}', [&] { read_member(); });
    if (peek() != '\0' || at_ < text_.size()) find(at_, "nothing may follow the object");
  }

  void read_member() {
    peek();
    const std::size_t begin = at_;
    expect('"');
    const std::string name(text_.substr(at_, text_.find_first_of("\"\n", at_) - at_));
    at_ += name.size();
    expect('"');
    const auto key = std::ranges::find(kKeys, name, &Key::name);
    if (key == kKeys.end()) find(begin, "there is no " + in_quotes(name) + " in a model");
    if (std::ranges::find(seen_, name) != seen_.end())
      find(begin, in_quotes(name) + " is there twice");
    seen_.push_back(name);
    expect(':');
    std::vector<std::int64_t> values;
    const bool is_list = peek() == '[';
    if (is_list) {
      read_list('[', ']', [&] { values.push_back(read_number()); });
    } else {
      values.push_back(read_number());
    }
    if (key != kKeys.end()) set(*key, values, is_list, begin);
  }

  // Finds a fault, and returns 0, for what is no whole number from 0 up.
  std::int64_t read_number() {
    peek();
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(" \t\r\n,]}:[{\"", at_), text_.size());
    const std::string_view token = text_.substr(begin, at_ - begin);
    if (token.empty()) {
      find(begin, "here has to be a number");
      throw NoJson();
    }
    const char* const end = token.data() + token.size();
    std::int64_t whole = 0;
    if (const auto [to, error] = std::from_chars(token.data(), end, whole);
        error == std::errc() && to == end) {
      if (whole < 0) find(begin, in_quotes(token) + " is negative");
      return std::max<std::int64_t>(whole, 0);
    }
    double number = 0;
    const auto [to, error] = std::from_chars(token.data(), end, number);
    constexpr double kExact = 0x1p53;  // whole numbers up to there are doubles
    if (to != end || std::isnan(number) || std::isinf(number)) {
      find(begin, in_quotes(token) + " is no number");
    } else if (error != std::errc() || number > kExact) {
      find(begin, in_quotes(token) + " is too large");
    } else if (number < 0) {
      find(begin, in_quotes(token) + " is negative");
    } else if (number != std::floor(number)) {
      find(begin, in_quotes(token) + " is not whole");
    } else {
      return static_cast<std::int64_t>(number);
    }
    return 0;
  }

  void set(const Key& key, const std::vector<std::int64_t>& values, bool is_list,
           std::size_t begin) {
    if (key.of_stage == nullptr) {
      if (is_list) return find(begin, '"' + std::string(key.name) + "\" is one number");
      if (key.name == std::string_view("link")) {
        model_.link = values[0];
      } else if (values[0] > std::numeric_limits<int>::max()) {
        find(begin, "the capacity is too large");
      } else {
        model_.capacity = static_cast<int>(values[0]);
      }
      return;
    }
    if (values.empty()) return find(begin, '"' + std::string(key.name) + "\" is an empty list");
    if (model_.stages.size() == 1) model_.stages.resize(values.size(), model_.stages[0]);
    if (values.size() != 1 && values.size() != model_.stages.size()) {
      return find(begin, '"' + std::string(key.name) + "\" has " + std::to_string(values.size()) +
                             " stages, and what is before it " +
                             std::to_string(model_.stages.size()));
    }
    for (std::size_t s = 0; s < model_.stages.size(); ++s) {
      model_.stages[s].*key.of_stage = values[values.size() == 1 ? 0 : s];
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> seen_;
  std::vector<Finding> findings_;
  CostModel model_;
};

}  // namespace

CostModel parse_model(std::string_view text, const std::string& file) {
  Reader reader(text);
  CostModel model = reader.read();
  if (!reader.findings().empty()) {
    throw leat::pipeline::ScheduleError(std::move(reader.findings()), file);
  }
  return model;
}

}  // namespace schedule_program
