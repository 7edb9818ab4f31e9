#include "leat/comm/exchange/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "leat/csp/base/random.h"

namespace leat::comm {
namespace {

// What all ranks must say alike.
struct Fact {
  std::string tensor;  // that it is of, if it is of one
  std::string text;
};

std::int64_t hash(const std::string& text) {
  std::uint64_t value = text.size();
  for (const char c : text) value = mix(value * 0x100000001B3U + static_cast<unsigned char>(c));
  return static_cast<std::int64_t>(value);
}

// What each rank has, by rank. All have as much.
std::vector<std::int64_t> gather(const Communicator& ranks, const std::vector<std::int64_t>& mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks.size()) * mine.size());
  ranks.all_gather(mine, all).await();
  return all;
}

// The first bytes of each rank's text, by rank.
std::vector<std::string> texts_of(const Communicator& ranks, const std::string& mine) {
  constexpr std::size_t kBytes = 256;
  std::vector<std::int64_t> words(kBytes / sizeof(std::int64_t));
  std::memcpy(words.data(), mine.data(), std::min(mine.size(), kBytes));
  const std::vector<std::int64_t> all = gather(ranks, words);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += words.size()) {
    const char* const text = reinterpret_cast<const char*>(&all[at]);
    texts.emplace_back(text, strnlen(text, kBytes));
  }
  return texts;
}

// All ranks look at all of it, so that all find the same difference.
void compare(const Communicator& ranks, const std::vector<int>& in_world,
             const std::vector<Fact>& facts, const char* what) {
  std::vector<std::int64_t> hashes;
  hashes.reserve(facts.size());
  for (const Fact& one : facts) hashes.push_back(hash(one.text));
  const std::vector<std::int64_t> all = gather(ranks, hashes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t fact = i / in_world.size();
    const std::size_t rank = i % in_world.size();
    if (all[fact] == all[rank * facts.size() + fact]) continue;
    const std::vector<std::string> tensors = texts_of(ranks, facts[fact].tensor);
    const std::vector<std::string> texts = texts_of(ranks, facts[fact].text);
    const auto said = [&](std::size_t one) {
      return texts[one] + " on rank " + std::to_string(in_world[one]);
    };
    World& world = ranks.transport()->world();
    world.fail({.is_mismatch = true,
                .peer = in_world[rank],
                .operation = what,
                .tensor = tensors[0],
                .what = "the calls of " + std::string(what) + " differ: " + said(0) + ", " +
                        said(rank) + "; give all ranks the same tensors and options"});
    world.require_alive(ranks.transport()->world_rank());
  }
}

}  // namespace

std::vector<int> agree(const Communicator& ranks, const Plan& plan, const ExchangeOptions& options,
                       const char* operation, const std::vector<std::string>& more) {
  std::vector<int> in_world;
  for (const std::int64_t rank : gather(ranks, {ranks.transport()->world_rank()})) {
    in_world.push_back(static_cast<int>(rank));
  }
  std::vector<Fact> facts;
  const auto add_option = [&](const char* name, auto value) {
    facts.push_back({"", std::string(name) + ' ' + std::to_string(value)});
  };
  add_option("policy", static_cast<int>(options.policy));
  add_option("urgency", static_cast<int>(options.urgency));
  add_option("weights", static_cast<int>(options.weights));
  add_option("synchronous", static_cast<int>(options.synchronous));
  add_option("tuner", options.tuner != nullptr ? 1 : 0);
  add_option("partition_bytes", options.partition_bytes);
  add_option("credit_bytes", options.credit_bytes);
  facts.push_back({"", "bucket_bytes"});
  for (const std::size_t limit : options.bucket_bytes) {
    facts.back().text += ' ' + std::to_string(limit);
  }
  for (const std::string& one : more) facts.push_back({"", one});
  compare(ranks, in_world, facts, operation);
  agree_on_tensors(ranks, in_world, plan.gradients, "gradient", operation);
  return in_world;
}

void agree_on_tensors(const Communicator& ranks, const std::vector<int>& in_world,
                      std::span<const Gradient> tensors, const std::string& what,
                      const char* operation) {
  compare(ranks, in_world, {{"", "the number of " + what + "s " + std::to_string(tensors.size())}},
          operation);
  std::vector<Fact> facts;
  for (const Gradient& one : tensors) {
    const std::string which =
        what + ' ' + std::to_string(facts.size() / 3) + " is \"" + one.name + '"';
    facts.push_back({one.name, which});
    facts.push_back({one.name, which + " of " + gpu::to_string(one.dtype)});
    facts.push_back({one.name, which + " of " + std::to_string(one.count()) + " elements"});
  }
  compare(ranks, in_world, facts, operation);
}

}  // namespace leat::comm
