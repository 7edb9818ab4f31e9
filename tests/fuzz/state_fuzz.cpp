// States: what is parsed has that text, can be merged, and resumes a plan; all else is an error. An
// input is tried as it is, and with the sum that it should have.
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "leat/feeder/state.h"
#include "leat/feeder/state/epoch_plan.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;

std::string with_sum(std::string text) {
  text = text.substr(0, text.rfind(",\"sum\":\""));
  std::uint32_t sum = 2166136261U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  std::array<char, 9> hex{};
  std::snprintf(hex.data(), hex.size(), "%08x", sum);
  return text + ",\"sum\":\"" + hex.data() + "\"}";
}

void parse(std::string text) {
  State state;
  if (!succeeds([&] { state = State::parse(text); })) return;
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  require(state.text() == text, "a state has another text than the one that it was parsed from");
  const BatchPlan plan = state.plan();
  for (const EpochReleases& one : state.epochs) {
    const EpochPlan left(plan, &one);
    if (plan.batches() == 0) continue;
    std::vector<PositionRange> shard;
    left.shard(plan.batches() - 1, state.rank, shard);
    static_cast<void>(left.count(0));
  }
  const std::array<State, 1> all = {state};
  succeeds([&] { static_cast<void>(State::merge(all)); }, "", true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text);
  parse(with_sum(text));
  return 0;
}
