#include <cmath>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "bench/comm/step.h"

namespace bench {
namespace {

using leat::Duration;
using nlohmann::json;
namespace comm = leat::comm;

// Sums of all times of a step stay far below the range of a Duration.
constexpr double kMostNanoseconds = 1e15;
constexpr double kMostBytes = 0x1p50;
constexpr double kMostPieces = 1e7;
constexpr std::size_t kMostRanks = 1024;

// A field of the file, and where it stands, for errors: "step.json: ranks[1].b[0]".
struct Field {
  const json& value;
  std::string where;

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(where + ": " + what);
  }
  [[nodiscard]] Field at(const char* name) const {
    const auto found = value.find(name);
    if (found == value.end()) fail("the field \"" + std::string(name) + "\" is missing");
    return {*found, where + (where.ends_with(": ") ? "" : ".") + name};
  }
  [[nodiscard]] bool has(const char* name) const { return value.contains(name); }
  void require_object() const {
    if (!value.is_object()) fail("must be an object, {...}");
  }
  [[nodiscard]] std::vector<Field> elements() const {
    if (!value.is_array() || value.empty()) fail("must be a list of at least one element");
    std::vector<Field> all;
    for (std::size_t i = 0; i < value.size(); ++i) {
      all.push_back({value[i], where + "[" + std::to_string(i) + "]"});
    }
    return all;
  }
  [[nodiscard]] double number(double least, double most, const char* unit) const {
    const auto range = [&] {
      std::string text = "must be a number of " + std::string(unit) + " from ";
      text += json(least).dump() + " to " + json(most).dump();
      return text + ", not " + value.dump();
    };
    if (!value.is_number()) fail(range());
    const auto number = value.get<double>();
    if (!(number >= least && number <= most)) fail(range());
    return number;
  }
  [[nodiscard]] Duration time() const {
    return Duration(std::llround(number(0, kMostNanoseconds, "nanoseconds")));
  }
  [[nodiscard]] std::size_t bytes(double least) const {
    const double size = number(least, kMostBytes, "bytes");
    if (size != std::floor(size)) fail("must be a whole number of bytes, not " + value.dump());
    return static_cast<std::size_t>(size);
  }
  [[nodiscard]] std::vector<Duration> times(std::size_t layers) const {
    std::vector<Duration> all;
    for (const Field& element : elements()) all.push_back(element.time());
    if (all.size() != layers) {
      fail("has " + std::to_string(all.size()) + " layers, but \"bytes\" has " +
           std::to_string(layers) + "; give one time for each layer");
    }
    return all;
  }
};

comm::Policy policy_of(const Field& field) {
  if (field.value == "fifo") return comm::Policy::kFifo;
  if (field.value == "priority") return comm::Policy::kPriority;
  if (field.value == "bucketed") return comm::Policy::kBucketed;
  field.fail("must be \"fifo\", \"priority\" or \"bucketed\", not " + field.value.dump());
}

void read_options(const Field& top, comm::ExchangeOptions& options) {
  if (top.has("partition_bytes")) options.partition_bytes = top.at("partition_bytes").bytes(1);
  if (top.has("credit_bytes")) options.credit_bytes = top.at("credit_bytes").bytes(1);
  if (top.has("policy")) options.policy = policy_of(top.at("policy"));
  if (top.has("synchronous")) {
    const Field synchronous = top.at("synchronous");
    if (!synchronous.value.is_boolean()) synchronous.fail("must be true or false");
    options.synchronous = synchronous.value.get<bool>();
  }
  if (top.has("bucket_bytes")) {
    options.bucket_bytes.clear();
    for (const Field& limit : top.at("bucket_bytes").elements()) {
      options.bucket_bytes.push_back(limit.bytes(1));
    }
  }
}

std::string contents(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw std::runtime_error(path + ": cannot be read; give the path of a JSON file");
  return text;
}

bool is_known(std::string_view name) {
  for (const std::string_view known :
       {"ranks", "bytes", "alpha", "bandwidth", "delta", "partition_bytes", "credit_bytes",
        "policy", "synchronous", "bucket_bytes", "mode", "servers"}) {
    if (name == known) return true;
  }
  return false;
}

// A step of such times could not be told in nanoseconds, or run.
void require_feasible(const StepInstance& instance, const Field& top) {
  double total = 0;
  double all_pieces = 0;
  for (std::size_t i = 0; i < instance.bytes.size(); ++i) {
    const auto bytes = static_cast<double>(instance.bytes[i]);
    const double pieces = std::ceil(bytes / static_cast<double>(instance.options.partition_bytes));
    all_pieces += pieces;
    total += 2e9 * bytes / instance.bandwidth +
             (pieces + 1) * static_cast<double>((instance.alpha + 4 * instance.delta).count());
    for (const RankLayers& rank : instance.ranks) {
      total += static_cast<double>((rank.backward[i] + rank.forward[i]).count());
    }
  }
  if (all_pieces > kMostPieces) {
    top.fail("the step has more than 10,000,000 pieces; give a larger partition_bytes");
  }
  if (total > 1e18) top.fail("the step takes more than 30 years; give smaller times");
}

}  // namespace

StepInstance parse_instance(const std::string& text, const std::string& path,
                            std::vector<std::string>* ignored) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(path + ": not JSON: " + error.what());
  }
  const Field top = {document, path + ": "};
  if (!document.is_object()) {
    throw std::runtime_error(path +
                             R"(: must be an object, {"ranks": [...], "bytes": [...], ...})");
  }
  StepInstance instance;
  for (const Field& size : top.at("bytes").elements()) instance.bytes.push_back(size.bytes(0));
  const Field ranks = top.at("ranks");
  for (const Field& rank : ranks.elements()) {
    rank.require_object();
    instance.ranks.push_back({.backward = rank.at("b").times(instance.bytes.size()),
                              .forward = rank.at("f").times(instance.bytes.size())});
  }
  if (instance.ranks.size() > kMostRanks) {
    ranks.fail("has more than " + std::to_string(kMostRanks) + " ranks");
  }
  instance.bandwidth = top.at("bandwidth").number(1e-3, 1e21, "bytes per second");
  if (top.has("alpha")) instance.alpha = top.at("alpha").time();
  if (top.has("delta")) instance.delta = top.at("delta").time();
  read_options(top, instance.options);
  if (top.has("mode")) {
    const Field mode = top.at("mode");
    if (mode.value != "exchange" && mode.value != "server") {
      mode.fail("must be \"exchange\" or \"server\", not " + mode.value.dump());
    }
    if (mode.value == "server") instance.servers = 1;
  }
  if (instance.servers > 0) {
    if (top.has("servers")) {
      const Field servers = top.at("servers");
      const double number = servers.number(1, kMostRanks, "servers");
      if (number != std::floor(number)) servers.fail("must be a whole number");
      instance.servers = static_cast<int>(number);
    }
    if (instance.options.policy == comm::Policy::kBucketed) {
      top.at("policy").fail("of servers must be \"fifo\" or \"priority\"");
    }
  }
  require_feasible(instance, {document, path});
  if (ignored != nullptr) {
    for (const auto& [name, value] : document.items()) {
      if (!is_known(name)) ignored->push_back(name);
    }
  }
  return instance;
}

StepInstance read_instance(const std::string& path, std::vector<std::string>* ignored) {
  return parse_instance(contents(path), path, ignored);
}

}  // namespace bench
